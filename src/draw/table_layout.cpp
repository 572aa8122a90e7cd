#include "draw/table_layout.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "draw/block_names.h"

namespace lockstep::draw {
namespace {

constexpr double kStep = 1;  ///< Columns give and take room in steps of this size.

bool tells_rows_apart(const Table& table, const std::vector<size_t>& columns) {
  std::set<std::vector<std::string>> seen;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    std::vector<std::string> texts;
    for (const size_t column : columns) texts.push_back(cell_text(cell_at(table, row, column)));
    if (!seen.insert(std::move(texts)).second) return false;
  }
  return true;
}

double total_width(const std::vector<size_t>& columns, const std::vector<double>& widths, double gap) {
  double total = columns.empty() ? 0 : -gap;
  for (const size_t column : columns) total += widths[column] + gap;
  return total;
}

/// Narrows columns, the widest first, until they fit or all are at their least.
void narrow(const std::vector<size_t>& columns, const std::vector<double>& least, double gap, double width,
            std::vector<double>& widths) {
  while (total_width(columns, widths, gap) > width) {
    size_t widest = widths.size();
    for (const size_t column : columns)
      if (widths[column] > least[column] && (widest == widths.size() || widths[column] > widths[widest]))
        widest = column;
    if (widest == widths.size()) return;
    widths[widest] = std::max(least[widest], widths[widest] - kStep);
  }
}

/// Gives the room that a part leaves to its narrowed columns, the narrowest first.
TablePart widened(std::vector<size_t> columns, const std::vector<ColumnWidth>& all, double gap, double width,
                  std::vector<double> widths) {
  std::sort(columns.begin(), columns.end());
  while (total_width(columns, widths, gap) + kStep <= width) {
    size_t narrowest = widths.size();
    for (const size_t column : columns)
      if (widths[column] < all[column].natural && (narrowest == widths.size() || widths[column] < widths[narrowest]))
        narrowest = column;
    if (narrowest == widths.size()) break;
    widths[narrowest] = std::min(all[narrowest].natural, widths[narrowest] + kStep);
  }
  TablePart part;
  for (const size_t column : columns) part.push_back({column, widths[column]});
  return part;
}

/// Key columns that leave room for every other one: the last of them go first.
void keep_room(const std::vector<double>& hard, double gap, double width, std::vector<size_t>& keys) {
  const auto has_room = [&] {
    const double led = total_width(keys, hard, gap) + gap;
    for (size_t column = 0; column < hard.size(); ++column)
      if (std::find(keys.begin(), keys.end(), column) == keys.end() && led + hard[column] > width) return false;
    return true;
  };
  while (keys.size() > 1 && !has_room()) keys.pop_back();
}

}  // namespace

std::vector<size_t> key_columns(const Table& table) {
  std::vector<size_t> keys;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    keys.push_back(column);
    if (!tells_rows_apart(table, keys)) continue;
    for (size_t place = keys.size() - 1; place-- > 0;) {
      std::vector<size_t> fewer = keys;
      fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(place));
      if (tells_rows_apart(table, fewer)) keys = std::move(fewer);
    }
    return keys;
  }
  return table.columns.empty() ? std::vector<size_t>{} : std::vector<size_t>{0};
}

std::vector<TablePart> lay_out_table(const std::vector<ColumnWidth>& columns, std::vector<size_t> keys, double gap,
                                     double width) {
  std::vector<double> widths, least, hard;
  for (const ColumnWidth& column : columns) {
    widths.push_back(column.natural);
    least.push_back(column.least);
    hard.push_back(column.hard);
  }
  std::vector<size_t> all(columns.size());
  std::iota(all.begin(), all.end(), size_t{0});
  narrow(all, least, gap, width, widths);
  if (columns.size() < 2) narrow(all, hard, gap, width, widths);
  if (columns.size() < 2 || total_width(all, widths, gap) <= width) return {widened(all, columns, gap, width, widths)};
  keep_room(hard, gap, width, keys);
  std::vector<std::vector<size_t>> parts;
  for (const size_t column : all) {
    if (std::find(keys.begin(), keys.end(), column) != keys.end()) continue;
    std::vector<size_t> led = keys;
    led.push_back(column);
    narrow(led, hard, gap, width, widths);
    std::vector<size_t> longer = parts.empty() ? keys : parts.back();
    longer.push_back(column);
    if (!parts.empty() && total_width(longer, widths, gap) <= width)
      parts.back() = std::move(longer);
    else
      parts.push_back(std::move(led));
  }
  std::vector<TablePart> placed;
  for (std::vector<size_t>& part : parts) placed.push_back(widened(std::move(part), columns, gap, width, widths));
  return placed;
}

}  // namespace lockstep::draw
