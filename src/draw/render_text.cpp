#include <fmt/format.h>

#include <algorithm>

#include "core/strings.h"
#include "draw/block_names.h"
#include "draw/render.h"
#include "draw/table_layout.h"
#include "draw/text_metrics.h"

namespace lockstep::draw {
namespace {

constexpr int kGap = 2, kMinTextColumn = 10;

/// One column as it will be printed.
struct TextColumn {
  std::string title{};
  std::vector<std::string> cells{};
  bool is_text = false;
};

int longest_word(const std::string& text) {
  int longest = 0;
  for (const std::string& word : core::split(text, " ")) longest = std::max(longest, terminal_columns(word));
  return longest;
}

std::vector<TextColumn> read_columns(const Table& table, const TableNotes& notes) {
  std::vector<TextColumn> columns;
  for (size_t index = 0; index < table.columns.size(); ++index) {
    TextColumn column{.title = one_line(table.columns[index].title), .is_text = table.columns[index].is_text};
    for (size_t row = 0; row < table.rows.size(); ++row) {
      const Cell& cell = cell_at(table, row, index);
      column.cells.push_back(cell_text(cell));
      if (const size_t number = notes.number(cell); number > 0) column.cells.back() += fmt::format(" [{}]", number);
    }
    columns.push_back(std::move(column));
  }
  return columns;
}

/// Words of titles stay whole, and those of cells as long as every column has room beside the keys.
ColumnWidth width_of(const TextColumn& column, int max_width) {
  int natural = longest_word(column.title), words = std::max(kMinTextColumn, natural);
  const int hard = words;
  for (const std::string& cell : column.cells) {
    natural = std::max(natural, terminal_columns(cell));
    words = std::max(words, longest_word(cell));
  }
  natural = std::min(natural, max_width);
  if (!column.is_text)
    return {.natural = static_cast<double>(natural),
            .least = static_cast<double>(natural),
            .hard = static_cast<double>(natural)};
  return {.natural = static_cast<double>(natural),
          .least = static_cast<double>(std::min(words, natural)),
          .hard = static_cast<double>(std::min(hard, natural))};
}

/// One row of cells, each wrapped to its column; heads stand on the lowest line, cells begin on the highest.
std::string row_text(const std::vector<TextColumn>& columns, const TablePart& part,
                     const std::vector<std::string>& texts, bool is_head) {
  std::vector<std::vector<std::string>> cells;
  size_t height = 1;
  for (size_t index = 0; index < part.size(); ++index) {
    cells.push_back(wrap_columns(texts[index], static_cast<int>(part[index].width)));
    height = std::max(height, cells.back().size());
  }
  std::string text;
  for (size_t line = 0; line < height; ++line) {
    std::string printed;
    for (size_t index = 0; index < part.size(); ++index) {
      const size_t skipped = is_head ? height - cells[index].size() : 0;
      const std::string piece =
          line >= skipped && line - skipped < cells[index].size() ? cells[index][line - skipped] : "";
      const std::string padding(
          static_cast<size_t>(std::max(0, static_cast<int>(part[index].width) - terminal_columns(piece))), ' ');
      printed += (index > 0 ? std::string(kGap, ' ') : "") +
                 (columns[part[index].column].is_text ? piece + padding : padding + piece);
    }
    printed.erase(printed.find_last_not_of(' ') + 1);
    text += printed + "\n";
  }
  return text;
}

std::string part_text(const std::vector<TextColumn>& columns, const TablePart& part, size_t num_rows, int width) {
  std::vector<std::string> texts;
  int used = -kGap;
  for (const PlacedColumn& placed : part) {
    texts.push_back(columns[placed.column].title);
    used += static_cast<int>(placed.width) + kGap;
  }
  std::string text =
      row_text(columns, part, texts, true) + std::string(static_cast<size_t>(std::clamp(used, 1, width)), '-') + "\n";
  for (size_t row = 0; row < num_rows; ++row) {
    for (size_t index = 0; index < part.size(); ++index) texts[index] = columns[part[index].column].cells[row];
    text += row_text(columns, part, texts, false);
  }
  return text;
}

}  // namespace

std::string wrapped(const std::string& first, const std::string& content, int width) {
  std::string text;
  const std::string indent(first.size(), ' ');
  for (const std::string& line : wrap_columns(content, std::max(10, width - static_cast<int>(first.size()))))
    text += (text.empty() ? first : indent) + line + "\n";
  return text;
}

std::string to_text(const Table& table, int width) {
  width = std::max(width, 20);
  const TableNotes notes = collect_notes(table);
  std::string text;
  if (const std::string title = one_line(table.title); !title.empty()) text += wrapped("", title, width) + "\n";
  const std::vector<TextColumn> columns = read_columns(table, notes);
  std::vector<ColumnWidth> widths;
  for (const TextColumn& column : columns)
    widths.push_back(width_of(column, width - (columns.size() > 1 ? kMinTextColumn + kGap : 0)));
  if (!columns.empty()) {
    const std::vector<TablePart> parts = lay_out_table(widths, key_columns(table), kGap, width);
    for (size_t part = 0; part < parts.size(); ++part)
      text += (part > 0 ? "\n" : "") + part_text(columns, parts[part], table.rows.size(), width);
  }
  if (table.rows.empty()) text += "(no rows)\n";
  if (!notes.cell_notes.empty() || !notes.table_notes.empty()) text += "\n";
  for (size_t index = 0; index < notes.cell_notes.size(); ++index)
    text += wrapped(fmt::format("[{}] ", index + 1), notes.cell_notes[index], width);
  for (const std::string& note : notes.table_notes) text += wrapped("* ", note, width);
  return text;
}

}  // namespace lockstep::draw
