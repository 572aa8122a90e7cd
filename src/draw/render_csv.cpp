#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/csv_table.h"
#include "draw/block_names.h"
#include "draw/render.h"
#include "draw/text_metrics.h"

namespace lockstep::draw {
namespace {

std::string csv_value(const Cell& cell) {
  if (!cell.value) return core::csv_field(clean_text(cell.text));
  return std::isfinite(*cell.value) ? fmt::format("{}", *cell.value) : "";
}

std::string key_of(const Column& column) {
  return one_line(column.key).empty() ? one_line(column.title) : one_line(column.key);
}

}  // namespace

std::string to_csv(const Table& table) {
  const bool has_notes = std::any_of(table.rows.begin(), table.rows.end(), [](const std::vector<Cell>& row) {
    return std::any_of(row.begin(), row.end(), [](const Cell& cell) { return !cell.note.empty(); });
  });
  std::string text;
  for (size_t column = 0; column < table.columns.size(); ++column)
    text += (column > 0 ? "," : "") + core::csv_field(key_of(table.columns[column]));
  text += has_notes ? ",notes\r\n" : "\r\n";
  for (size_t row = 0; row < table.rows.size(); ++row) {
    std::string notes;
    for (size_t column = 0; column < table.columns.size(); ++column) {
      const Cell& cell = cell_at(table, row, column);
      text += (column > 0 ? "," : "") + csv_value(cell);
      if (!cell.note.empty())
        notes += fmt::format("{}{}: {}", notes.empty() ? "" : "; ", key_of(table.columns[column]), one_line(cell.note));
    }
    if (has_notes) text += "," + core::csv_field(notes);
    text += "\r\n";
  }
  return text;
}

}  // namespace lockstep::draw
