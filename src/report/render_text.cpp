#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "core/strings.h"
#include "report/block_names.h"
#include "report/render.h"
#include "report/text_metrics.h"

namespace lockstep::report {
namespace {

constexpr int kGap = 2, kMinTextColumn = 10;

/// One column as it will be printed.
struct TextColumn {
  std::string title{};
  std::vector<std::string> cells{};
  bool is_text = false;
  int width = 0;
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
    column.width = longest_word(column.title);
    for (const std::string& text : column.cells) column.width = std::max(column.width, terminal_columns(text));
    columns.push_back(std::move(column));
  }
  return columns;
}

int total_width(std::span<const TextColumn* const> columns) {
  int width = columns.empty() ? 0 : -kGap;
  for (const TextColumn* column : columns) width += column->width + kGap;
  return width;
}

/// How narrow a text column may become: words of titles stay whole, those of cells as long as every column has room beside the first.
int least_width(const TextColumn& column, bool keeps_words) {
  int least = std::max(kMinTextColumn, longest_word(column.title));
  if (keeps_words)
    for (const std::string& cell : column.cells) least = std::max(least, longest_word(cell));
  return least;
}

/// Narrows text columns, the widest first, until `width` suffices or all are at their least.
void narrow(std::span<TextColumn* const> columns, int width, bool keeps_words) {
  std::vector<int> least;
  for (const TextColumn* column : columns) least.push_back(least_width(*column, keeps_words));
  for (int excess = total_width(std::vector<const TextColumn*>(columns.begin(), columns.end())) - width; excess > 0; --excess) {
    TextColumn* widest = nullptr;
    for (size_t index = 0; index < columns.size(); ++index)
      if (columns[index]->is_text && columns[index]->width > least[index] && (widest == nullptr || columns[index]->width > widest->width)) widest = columns[index];
    if (widest == nullptr) return;
    --widest->width;
  }
}

/// First at spaces only; then, where a column does not fit beside the first one, inside words.
void narrow_all(std::vector<TextColumn>& columns, int width) {
  std::vector<TextColumn*> all;
  for (TextColumn& column : columns) all.push_back(&column);
  narrow(all, width, true);
  for (size_t index = 1; index < all.size(); ++index) narrow(std::array{all.front(), all[index]}, width, false);
  if (all.size() == 1) narrow(all, width, false);
}

/// Groups of columns that fit side by side; the first column leads each.
std::vector<std::vector<const TextColumn*>> fit(const std::vector<TextColumn>& columns, int width) {
  std::vector<std::vector<const TextColumn*>> groups;
  for (const TextColumn& column : columns) {
    std::vector<const TextColumn*> longer = groups.empty() ? std::vector<const TextColumn*>{} : groups.back();
    longer.push_back(&column);
    if (groups.empty()) groups.push_back(longer);
    else if (total_width(longer) <= width || longer.size() == 2) groups.back() = longer;
    else groups.push_back({&columns.front(), &column});
  }
  return groups;
}

/// One row of cells, each wrapped to its column; heads stand on the lowest line, cells begin on the highest.
std::string row_text(const std::vector<const TextColumn*>& columns, const std::vector<std::string>& texts, bool is_head) {
  std::vector<std::vector<std::string>> cells;
  size_t height = 1;
  for (size_t index = 0; index < columns.size(); ++index) {
    cells.push_back(wrap_columns(texts[index], columns[index]->width));
    height = std::max(height, cells.back().size());
  }
  std::string text;
  for (size_t line = 0; line < height; ++line) {
    std::string printed;
    for (size_t index = 0; index < columns.size(); ++index) {
      const size_t skipped = is_head ? height - cells[index].size() : 0;
      const std::string piece = line >= skipped && line - skipped < cells[index].size() ? cells[index][line - skipped] : "";
      const std::string padding(static_cast<size_t>(std::max(0, columns[index]->width - terminal_columns(piece))), ' ');
      printed += (index > 0 ? std::string(kGap, ' ') : "") + (columns[index]->is_text ? piece + padding : padding + piece);
    }
    printed.erase(printed.find_last_not_of(' ') + 1);
    text += printed + "\n";
  }
  return text;
}

std::string group_text(const std::vector<const TextColumn*>& columns, size_t num_rows, int width) {
  std::vector<std::string> texts;
  for (const TextColumn* column : columns) texts.push_back(column->title);
  std::string text = row_text(columns, texts, true) + std::string(static_cast<size_t>(std::clamp(total_width(columns), 1, width)), '-') + "\n";
  for (size_t row = 0; row < num_rows; ++row) {
    for (size_t index = 0; index < columns.size(); ++index) texts[index] = columns[index]->cells[row];
    text += row_text(columns, texts, false);
  }
  return text;
}

std::string wrapped(const std::string& first, const std::string& content, int width) {
  std::string text;
  const std::string indent(first.size(), ' ');
  for (const std::string& line : wrap_columns(content, std::max(10, width - static_cast<int>(first.size()))))
    text += (text.empty() ? first : indent) + line + "\n";
  return text;
}

}  // namespace

std::string to_text(const Table& table, int width) {
  width = std::max(width, 20);
  const TableNotes notes = collect_notes(table);
  std::string text;
  if (const std::string title = one_line(table.title); !title.empty()) text += wrapped("", title, width) + "\n";
  std::vector<TextColumn> columns = read_columns(table, notes);
  for (TextColumn& column : columns) column.width = std::min(column.width, width - (columns.size() > 1 ? kMinTextColumn + kGap : 0));
  narrow_all(columns, width);
  const std::vector<std::vector<const TextColumn*>> groups = fit(columns, width);
  for (size_t group = 0; group < groups.size(); ++group) text += (group > 0 ? "\n" : "") + group_text(groups[group], table.rows.size(), width);
  if (table.rows.empty()) text += "(no rows)\n";
  if (!notes.cell_notes.empty() || !notes.table_notes.empty()) text += "\n";
  for (size_t index = 0; index < notes.cell_notes.size(); ++index) text += wrapped(fmt::format("[{}] ", index + 1), notes.cell_notes[index], width);
  for (const std::string& note : notes.table_notes) text += wrapped("* ", note, width);
  return text;
}

}  // namespace lockstep::report
