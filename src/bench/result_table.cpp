#include "bench/result_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/csv_table.h"
#include "core/print.h"
#include "core/strings.h"
#include "core/units.h"

namespace lockstep::bench {
namespace {

const core::Json* find(const core::Json& row, const std::string& key) {
  const auto found = row.find(key);
  return found == row.end() || found->is_null() ? nullptr : &*found;
}

std::string cell_text(const core::Json* value, int decimals) {
  if (value == nullptr) return "N/A";
  if (value->is_string()) return value->get<std::string>();
  if (value->is_number_float()) return fmt::format("{:.{}f}", value->get<double>(), decimals);
  return value->dump();
}

/// The first two characters of a header line say that it is one.
std::string comment(const std::string& line) { return "#" + line.substr(std::min<size_t>(1, line.size())); }

std::string group_line(std::span<const TableColumn> columns) {
  std::string line;
  for (size_t begin = 0; begin < columns.size();) {
    size_t end = begin, width = 0;
    while (end < columns.size() && columns[end].group == columns[begin].group)
      width += static_cast<size_t>(columns[end++].width) + 1;
    line += fmt::format("{:^{}}", columns[begin].group, width);
    begin = end;
  }
  return line;
}

}  // namespace

std::vector<std::string> table_header(std::span<const TableColumn> columns) {
  std::vector<std::string> lines;
  if (std::any_of(columns.begin(), columns.end(), [](const TableColumn& column) { return !column.group.empty(); }))
    lines.push_back(comment(group_line(columns)));
  std::string titles, units;
  for (const TableColumn& column : columns) {
    if (!column.is_in_table) continue;
    titles += fmt::format(" {:>{}}", column.title, column.width);
    units += fmt::format(" {:>{}}", column.unit.empty() ? "" : "(" + column.unit + ")", column.width);
  }
  lines.push_back(comment(titles));
  lines.push_back(comment(units));
  return lines;
}

std::string table_line(std::span<const TableColumn> columns, const core::Json& row) {
  std::string line;
  for (const TableColumn& column : columns) {
    if (!column.is_in_table) continue;
    line +=
        fmt::format(" {:>{}}", core::printable_line(cell_text(find(row, column.key), column.decimals)), column.width);
  }
  return line;
}

std::string csv_header(std::span<const TableColumn> columns) {
  std::vector<std::string> cells;
  for (const TableColumn& column : columns) cells.push_back(core::csv_field(column.key));
  return core::join(cells, ",");
}

std::string csv_line(std::span<const TableColumn> columns, const core::Json& row) {
  std::vector<std::string> cells;
  for (const TableColumn& column : columns) {
    const core::Json* value = find(row, column.key);
    if (value == nullptr)
      cells.emplace_back();
    else
      cells.push_back(value->is_number_float() ? core::format_double(value->get<double>())
                                               : core::csv_field(cell_text(value, 0)));
  }
  return core::join(cells, ",");
}

}  // namespace lockstep::bench
