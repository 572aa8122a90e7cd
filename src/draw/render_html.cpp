#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/json.h"
#include "core/strings.h"
#include "draw/block_names.h"
#include "draw/chart_svg.h"
#include "draw/page_assets.h"
#include "draw/render.h"
#include "draw/text_metrics.h"

namespace lockstep::draw {
namespace {

constexpr double kWidePx = 840, kNarrowPx = 360, kWidePlotPx = 330, kNarrowPlotPx = 240;
constexpr size_t kMaxDataRows = 3000;  ///< Of a chart's data inside the page.

std::string head_html(const Document& document, const std::string& style) {
  return fmt::format(
      R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{}</title>
<style>{}</style>
</head>
)",
      csp_hash(style), csp_hash(page_script()), escape_xml(one_line(document.title)), style);
}

/// Sections with their tables and charts; of a long page, where the list would hide what it leads to, the sections.
std::string contents_html(const Document& document, const BlockNames& names) {
  constexpr size_t kMaxBlocks = 60;
  size_t num_blocks = 0;
  for (const auto& headings : names.headings) num_blocks += headings.size();
  std::string html = "<nav aria-label=\"Contents\" id=\"contents\"><p>Contents</p><ul>\n";
  for (size_t section = 0; section < document.sections.size(); ++section) {
    html += fmt::format("<li><a href=\"#{}\">{}</a>", names.sections[section],
                        escape_xml(one_line(document.sections[section].title)));
    std::string inner;
    for (size_t block = 0; block < document.sections[section].blocks.size(); ++block)
      if (const std::string& title = names.headings[section][block]; !title.empty())
        inner += fmt::format("<li><a href=\"#{}\">{}</a></li>", names.blocks[section][block], escape_xml(title));
    if (!inner.empty() && num_blocks <= kMaxBlocks) html += "<ul>" + inner + "</ul>";
    html += "</li>\n";
  }
  return html + "</ul></nav>\n";
}

/// Texts up to this length stay on one line; longer ones are prose, which wraps between words.
constexpr size_t kOneLineLength = 24;

/// "4 devices": a number is not parted from its unit.
bool is_amount(const std::string& text) {
  const size_t space = text.find(' ');
  return space != std::string::npos && space > 0 && text.find(' ', space + 1) == std::string::npos &&
         text.find_first_not_of("0123456789,") == space;
}

std::string cell_html(const Cell& cell, bool is_text, bool is_row_head, size_t note_number, const std::string& name) {
  std::string attributes = is_row_head ? " scope=\"row\"" : "";
  const std::string text = cell_text(cell);
  std::string css = !is_text ? "" : text.size() <= kOneLineLength ? "t" : "t p";
  std::string content = escape_xml(text);
  if (const size_t range = is_text ? std::string::npos : text.find(" (");
      range != std::string::npos) {  // on a line of its own where room is short
    css += "r";
    content = fmt::format("{} <span class=\"i\">{}</span>", escape_xml(text.substr(0, range)),
                          escape_xml(text.substr(range + 1)));
  } else if (is_text && is_amount(text)) {
    content = core::replace_all(std::move(content), " ", "&nbsp;");
  } else if (is_text && text.size() > kOneLineLength) {
    content = core::replace_all(content, "/", "/<wbr>");
  }
  if (is_blank(cell)) {
    css += css.empty() ? "none" : " none";
    content = "<span aria-label=\"no value\">&ndash;</span>";
  } else if (cell.value && std::isfinite(*cell.value)) {
    if (const std::string number = fmt::format("{}", *cell.value); number != text || note_number > 0)
      attributes += fmt::format(" data-v=\"{}\"", number);
  } else if (note_number > 0) {
    attributes += fmt::format(" data-t=\"{}\"", escape_xml(text));
  }
  if (!css.empty()) attributes += fmt::format(" class=\"{}\"", css);
  if (note_number > 0)
    content += fmt::format("<sup><a href=\"#{0}-n{1}\" title=\"{2}\" aria-label=\"note {1}\">{1}</a></sup>", name,
                           note_number, escape_xml(one_line(cell.note)));
  const char* tag = is_row_head ? "th" : "td";
  return fmt::format("<{0}{1}>{2}</{0}>", tag, attributes, content);
}

std::string notes_html(const TableNotes& notes, const std::string& name) {
  std::string html;
  if (!notes.cell_notes.empty()) {
    html += "<ol class=\"notes\">";
    for (size_t index = 0; index < notes.cell_notes.size(); ++index)
      html += fmt::format("<li id=\"{}-n{}\">{}</li>", name, index + 1, escape_xml(notes.cell_notes[index]));
    html += "</ol>";
  }
  if (!notes.table_notes.empty()) {
    html += "<ul class=\"notes\">";
    for (const std::string& note : notes.table_notes) html += "<li>" + escape_xml(note) + "</li>";
    html += "</ul>";
  }
  return html;
}

/// Letters across (in em) that a table needs without a break inside a word or number.
struct LeastWidth {
  double whole_em = 0;  ///< Ranges stay on one line, too.
  double split_em = 0;
};

LeastWidth least_width(const Table& table) {
  constexpr double kProseEm = 11, kOtherFonts = 1.12;  // text_width knows narrower fonts than some systems have
  const auto em = [](std::string_view text) { return kOtherFonts * text_width(text, 1); };
  LeastWidth all;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    LeastWidth one;
    for (const std::string& word : core::split(one_line(table.columns[column].title), " "))
      one.whole_em = std::max(one.whole_em, em(word));
    one.split_em = one.whole_em;
    for (size_t row = 0; row < table.rows.size(); ++row) {
      const std::string text = cell_text(cell_at(table, row, column));
      const bool is_prose = table.columns[column].is_text && text.size() > kOneLineLength;
      const size_t range = table.columns[column].is_text ? std::string::npos : text.find(" (");
      const double whole = is_prose ? kProseEm : em(text);
      one.whole_em = std::max(one.whole_em, range == std::string::npos ? whole : em(text.substr(range + 1)));
      if (range == std::string::npos)
        one.split_em = std::max(one.split_em, whole);
      else
        for (const std::string& word : core::split(text, " ")) one.split_em = std::max(one.split_em, em(word));
    }
    all.whole_em += one.whole_em, all.split_em += one.split_em;
  }
  return all;
}

/// Sizes of letters and of the space around cells in page_style, by class: the largest that lets the table fit.
std::string size_classes(const Table& table) {
  struct Size {
    double letter, padding;
    const char* css;
  };
  constexpr std::array<Size, 3> kScreenPx = {{{13.44, 17.6, ""}, {12.48, 10.9, "many"}, {11.52, 9, "most"}}};
  constexpr std::array<Size, 3> kPaperPt = {{{7.5, 6, ""}, {6.6, 3.8, "fine"}, {5.8, 3.8, "finer"}}};
  constexpr std::array<Size, 3> kSplitPt = {
      {{6.6, 3.8, "fine split"},
       {5.4, 3.8, "finest split"},
       {5.4, 3.8, "finest split tight"}}};  // tight: words may break, nothing is cut
  constexpr double kScreenWidthPx = 960, kPaperWidthPt = 500;
  const LeastWidth least = least_width(table);
  const auto fits = [&](const Size& size, double em, double width) {
    return size.letter * em + size.padding * static_cast<double>(table.columns.size()) <= width;
  };
  const auto choose = [&](const auto& sizes, double em, double width) {
    return *std::find_if(sizes.begin(), sizes.end() - 1, [&](const Size& size) { return fits(size, em, width); });
  };
  const std::string screen = choose(kScreenPx, least.whole_em, kScreenWidthPx).css;
  const bool is_whole = fits(kPaperPt.back(), least.whole_em, kPaperWidthPt);
  const std::string paper = is_whole ? choose(kPaperPt, least.whole_em, kPaperWidthPt).css
                                     : choose(kSplitPt, least.split_em, kPaperWidthPt).css;
  const std::string css = screen + (screen.empty() || paper.empty() ? "" : " ") + paper;
  return css.empty() ? "" : fmt::format(" class=\"{}\"", css);
}

/// The table in its own scrolling box, and the notes under it.
std::string table_html(const Table& table, const std::string& name) {
  if (table.columns.empty()) return "<p class=\"cap\">This table has no columns.</p>";
  const TableNotes notes = collect_notes(table);
  const std::string title = one_line(table.title).empty() ? name : one_line(table.title);
  std::string html = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
      "aria-label=\"{0}\"><table{1}><caption>{0}</caption>\n<thead><tr>",
      escape_xml(title), size_classes(table));
  for (const Column& column : table.columns)
    html += fmt::format("<th scope=\"col\"{}>{}</th>", column.is_text ? " class=\"t\"" : "",
                        escape_xml(one_line(column.title)));
  html += "</tr></thead>\n<tbody>\n";
  for (size_t row = 0; row < table.rows.size(); ++row) {
    html += "<tr>";
    for (size_t column = 0; column < table.columns.size(); ++column) {
      const Cell& cell = cell_at(table, row, column);
      html += cell_html(cell, table.columns[column].is_text, column == 0, notes.number(cell), name);
    }
    html += "</tr>\n";
  }
  if (table.rows.empty())
    html += fmt::format("<tr><td class=\"t\" colspan=\"{}\">no rows</td></tr>\n", table.columns.size());
  return html + "</tbody></table></div>\n" + notes_html(notes, name);
}

std::string paragraph_html(const Paragraph& paragraph) {
  const std::string text = escape_xml(paragraph.text);
  switch (paragraph.kind) {
    case Paragraph::Kind::kNote: return "<p class=\"note\"><b>Note.</b>" + text + "</p>\n";
    case Paragraph::Kind::kWarning: return "<p class=\"warning\"><b>Warning.</b>" + text + "</p>\n";
    case Paragraph::Kind::kList:
      return "<ul class=\"note\"><li>" + core::replace_all(text, "\n", "</li>\n<li>") + "</li></ul>\n";
    case Paragraph::Kind::kCode: return "<pre tabindex=\"0\"><code>" + text + "</code></pre>\n";
    default: return "<p>" + text + "</p>\n";
  }
}

/// Names of what can be hidden, by the number that the drawing gives it.
core::Json series_names(const Chart& chart) {
  core::Json names = core::Json::object();
  if (chart.bars) return names;  // hiding a part would leave a hole in the bars
  for (size_t index = 0; index < chart.series.size(); ++index)
    if (const std::string name = one_line(chart.series[index].name); !name.empty() && !chart.series[index].is_reference)
      names[fmt::format("{}", index)] = name;
  return names;
}

/// The data table of a chart; very long ones thinned, with a note that says so and where the rest is.
Table page_data(const Chart& chart, const std::string& name) {
  Table data = chart_table(chart);
  const size_t count = data.rows.size(), stride = (count + kMaxDataRows - 1) / kMaxDataRows;
  if (stride <= 1) return data;
  std::vector<std::vector<Cell>> kept;
  for (size_t row = 0; row < count; row += stride) kept.push_back(std::move(data.rows[row]));
  data.rows = std::move(kept);
  data.notes.push_back(fmt::format("One in {} of {} rows; figures/{}.csv has all.", stride, count, name));
  return data;
}

std::string chart_html(const Chart& chart, const std::string& name, const std::string& heading) {
  const ChartFrame wide{.width = kWidePx, .plot_height = kWidePlotPx, .has_title = false, .id = name + "-w"};
  const ChartFrame narrow{.width = kNarrowPx, .plot_height = kNarrowPlotPx, .has_title = false, .id = name + "-s"};
  std::string html = fmt::format("<figure id=\"{}\" data-names=\"{}\">", name, escape_xml(series_names(chart).dump()));
  if (!heading.empty()) html += "<h3>" + escape_xml(heading) + "</h3>\n";
  html += fmt::format("<div class=\"plot\"><div class=\"wide\">{}</div>\n<div class=\"narrow\">{}</div></div>\n",
                      draw_chart(chart, wide), draw_chart(chart, narrow));
  if (!one_line(chart.caption).empty())
    html += "<figcaption>" + escape_xml(one_line(chart.caption)) + "</figcaption>\n";
  return html + "<details><summary>Data of this chart</summary>\n" +
         table_html(page_data(chart, name), name + "-data") + "</details></figure>\n";
}

std::string block_html(const Block& block, const std::string& name, const std::string& heading) {
  if (const Paragraph* paragraph = std::get_if<Paragraph>(&block)) return paragraph_html(*paragraph);
  if (const Chart* chart = std::get_if<Chart>(&block)) return chart_html(*chart, name, heading);
  const Table& table = std::get<Table>(block);
  std::string html = fmt::format("<div class=\"table\" id=\"{}\">", name);
  if (!heading.empty()) html += "<h3>" + escape_xml(heading) + "</h3>\n";
  if (!one_line(table.caption).empty()) html += "<p class=\"cap\">" + escape_xml(one_line(table.caption)) + "</p>\n";
  return html + table_html(table, name) + "</div>\n";
}

}  // namespace

std::string to_html(const Document& document) {
  const BlockNames names = name_blocks(document);
  std::string html = head_html(document, page_style());
  html += "<body>\n<a class=\"skip\" href=\"#main\">Skip to the report</a>\n<div class=\"frame\">\n<header><div><h1>" +
          escape_xml(one_line(document.title)) + "</h1>";
  if (!one_line(document.subtitle).empty())
    html += "<p class=\"sub\">" + escape_xml(one_line(document.subtitle)) + "</p>";
  html += "</div></header>\n<div class=\"columns\">\n" + contents_html(document, names) +
          "<main id=\"main\" tabindex=\"-1\">\n";
  for (size_t section = 0; section < document.sections.size(); ++section) {
    const Section& each = document.sections[section];
    html += fmt::format("<section aria-labelledby=\"{0}\"><h2 id=\"{0}\">{1}</h2>\n", names.sections[section],
                        escape_xml(one_line(each.title)));
    for (size_t block = 0; block < each.blocks.size(); ++block)
      html += block_html(each.blocks[block], names.blocks[section][block], names.headings[section][block]);
    html += "</section>\n";
  }
  html +=
      "</main>\n</div>\n<footer>Written by lockstep. This file is complete: it loads nothing and works without "
      "scripts.</footer>\n</div>\n";
  if (!document.data_json.empty())  // '<' occurs in strings only, where it may be written so
    html += "<script type=\"application/json\" id=\"lockstep-data\">" +
            core::replace_all(clean_text(document.data_json), "<", "\\u003c") + "</script>\n";
  html += fmt::format("<script>{}</script>\n</body>\n</html>\n", page_script());
  return html;
}

}  // namespace lockstep::draw
