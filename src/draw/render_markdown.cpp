#include <fmt/format.h>

#include <algorithm>

#include "core/strings.h"
#include "draw/block_names.h"
#include "draw/chart_svg.h"
#include "draw/render.h"
#include "draw/text_metrics.h"

namespace lockstep::draw {
namespace {

constexpr size_t kMaxChartRows = 40;  ///< Longer chart data stay in their own file.

/// Text that means itself: what Markdown or HTML would take as markup is escaped.
std::string escape_markdown(std::string_view text) {
  std::string escaped;
  for (const char c : clean_text(text)) {
    if (std::string_view("\\`*_[]|~#$").find(c) != std::string_view::npos) escaped += '\\';
    if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '&')
      escaped += "&amp;";
    else
      escaped += c;
  }
  return escaped;
}

/// A paragraph: no line of it may begin a list, a heading or a quotation.
std::string escape_lines(std::string_view text) {
  std::string escaped;
  for (const std::string& line : core::split(clean_text(text), "\n")) {
    std::string safe = escape_markdown(core::trim(line));
    const size_t digits = safe.find_first_not_of("0123456789");
    if (!safe.empty() && (safe[0] == '-' || safe[0] == '+' || safe[0] == '='))
      safe.insert(0, "\\");
    else if (digits != 0 && digits != std::string::npos && (safe[digits] == '.' || safe[digits] == ')'))
      safe.insert(digits, "\\");
    escaped += (escaped.empty() ? "" : "\n") + safe;
  }
  return escaped;
}

std::string code_block(const std::string& text) {
  size_t longest = 2, run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  const std::string content = clean_text(text);
  return fence + "\n" + content + (core::ends_with(content, "\n") ? "" : "\n") + fence + "\n";
}

std::string paragraph_markdown(const Paragraph& paragraph) {
  const std::string text = escape_lines(paragraph.text);
  const auto quoted = [&](const char* head) {
    return fmt::format("> **{}.** {}\n", head, core::replace_all(text, "\n", "\n> "));
  };
  switch (paragraph.kind) {
    case Paragraph::Kind::kNote: return quoted("Note");
    case Paragraph::Kind::kWarning: return quoted("Warning");
    case Paragraph::Kind::kList: return fmt::format("- {}\n", core::replace_all(text, "\n", "\n- "));
    case Paragraph::Kind::kCode: return code_block(paragraph.text);
    default: return text + "\n";
  }
}

std::string rows_markdown(const Table& table, const TableNotes& notes) {
  if (table.columns.empty()) return "(no columns)\n";
  std::string text = "|", rule = "|";
  for (const Column& column : table.columns) {
    text += " " + escape_markdown(one_line(column.title)) + " |";
    rule += column.is_text ? " :-- |" : " --: |";
  }
  text += "\n" + rule + "\n";
  for (size_t row = 0; row < table.rows.size(); ++row) {
    text += "|";
    for (size_t column = 0; column < table.columns.size(); ++column) {
      const Cell& cell = cell_at(table, row, column);
      const size_t number = notes.number(cell);
      text += " " + escape_markdown(cell_text(cell)) + (number > 0 ? fmt::format(" <sup>{}</sup>", number) : "") + " |";
    }
    text += "\n";
  }
  return text;
}

std::string chart_markdown(const Chart& chart, const std::string& name, const std::string& heading) {
  std::string text;
  if (!heading.empty()) text += "### " + escape_markdown(heading) + "\n\n";
  const std::string summary = one_line(chart.summary).empty() ? one_line(chart.title) : one_line(chart.summary);
  text += fmt::format("![{}](figures/{}.svg)\n", escape_markdown(summary), name);
  if (const std::string caption = one_line(chart.caption); !caption.empty())
    text += "\n" + escape_lines(caption) + "\n";
  const Table data = chart_table(chart);
  if (data.rows.size() <= kMaxChartRows) return text + "\n" + rows_markdown(data, collect_notes(data));
  return text + fmt::format("\nData: [figures/{0}.csv](figures/{0}.csv), {1} rows.\n", name, data.rows.size());
}

std::string table_markdown(const Table& table, const std::string& heading) {
  const TableNotes notes = collect_notes(table);
  std::string text;
  if (!heading.empty()) text += "### " + escape_markdown(heading) + "\n\n";
  if (const std::string caption = one_line(table.caption); !caption.empty()) text += escape_lines(caption) + "\n\n";
  text += rows_markdown(table, notes);
  if (!notes.cell_notes.empty() || !notes.table_notes.empty()) text += "\n";
  for (size_t index = 0; index < notes.cell_notes.size(); ++index)
    text += fmt::format("{}. {}\n", index + 1, escape_markdown(notes.cell_notes[index]));
  if (!notes.cell_notes.empty() && !notes.table_notes.empty()) text += "\n";
  for (const std::string& note : notes.table_notes) text += "- " + escape_markdown(note) + "\n";
  return text;
}

}  // namespace

std::string to_markdown(const Table& table) { return table_markdown(table, one_line(table.title)); }

std::string to_markdown(const Document& document) {
  const BlockNames names = name_blocks(document);
  std::string text = "# " + escape_markdown(one_line(document.title)) + "\n";
  if (const std::string subtitle = one_line(document.subtitle); !subtitle.empty())
    text += "\n" + escape_lines(subtitle) + "\n";
  for (size_t section = 0; section < document.sections.size(); ++section) {
    text += "\n## " + escape_markdown(one_line(document.sections[section].title)) + "\n";
    for (size_t block = 0; block < document.sections[section].blocks.size(); ++block) {
      const Block& each = document.sections[section].blocks[block];
      text += "\n";
      if (const Paragraph* paragraph = std::get_if<Paragraph>(&each))
        text += paragraph_markdown(*paragraph);
      else if (const Table* table = std::get_if<Table>(&each))
        text += table_markdown(*table, names.headings[section][block]);
      else
        text += chart_markdown(std::get<Chart>(each), names.blocks[section][block], names.headings[section][block]);
    }
  }
  return text;
}

}  // namespace lockstep::draw
