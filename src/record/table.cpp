#include "record/table.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "core/strings.h"
#include "record/line_reader.h"

namespace lockstep::record {

std::optional<size_t> Table::find(std::string_view column) const {
  const auto found = std::find(columns.begin(), columns.end(), column);
  if (found == columns.end()) return std::nullopt;
  return static_cast<size_t>(found - columns.begin());
}

size_t Table::column(std::string_view column) const {
  if (const auto found = find(column)) return *found;
  throw DataError(fmt::format("record: '{}' has no column '{}'; its columns are '{}'", source.string(), column, core::join(columns, "', '")));
}

const std::string& Table::text(size_t row, std::string_view name) const { return rows.at(row).at(column(name)); }

double Table::number(size_t row, std::string_view name) const {
  const std::string& field = text(row, name);
  const auto value = core::parse_double(field);
  if (!value || !std::isfinite(*value))
    throw DataError(fmt::format("record: '{}' line {}, column '{}': '{}' is no finite number", source.string(), lines.at(row), name, field));
  return *value;
}

std::vector<double> Table::numbers(std::string_view name) const {
  std::vector<double> values;
  for (size_t row = 0; row < rows.size(); ++row) values.push_back(number(row, name));
  return values;
}

std::optional<std::vector<std::string>> split_csv_line(std::string_view line, char separator) {
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  for (size_t at = 0; at < line.size(); ++at) {
    const char c = line[at];
    if (c == '"' && is_quoted && at + 1 < line.size() && line[at + 1] == '"') fields.back() += line[++at];
    else if (c == '"') is_quoted = !is_quoted;
    else if (c == separator && !is_quoted) fields.emplace_back();
    else fields.back() += c;
  }
  if (is_quoted) return std::nullopt;
  for (std::string& field : fields) field = core::trim(field);
  return fields;
}

Table read_table(const std::filesystem::path& path) {
  Table table{.source = path};
  LineReader reader(path);
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  for (std::string_view line; reader.next(line);) {
    if (reader.line_number() == 1 && core::starts_with(line, kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    line = core::trim(line);
    if (line.empty()) continue;
    if (line.front() == '#') {
      table.comments.emplace_back(core::trim(line.substr(1)));
      continue;
    }
    const auto where = [&] { return fmt::format("record: '{}' line {}", path.string(), reader.line_number()); };
    auto fields = split_csv_line(line);
    if (!fields) throw DataError(where() + ": a quote that is never closed", "double the quotes inside a field");
    if (table.columns.empty()) {
      table.columns = std::move(*fields);
      if (std::set(table.columns.begin(), table.columns.end()).size() != table.columns.size())
        throw DataError(where() + ": two columns have the same name", "give each column its own name");
      continue;
    }
    if (fields->size() != table.columns.size())
      throw DataError(fmt::format("{}: {} fields, but the header names {}", where(), fields->size(), table.columns.size()),
                      "put fields that contain a comma in quotes");
    table.rows.push_back(std::move(*fields));
    table.lines.push_back(static_cast<size_t>(reader.line_number()));
  }
  if (table.columns.empty()) throw DataError(fmt::format("record: '{}' is empty: expected a line with the names of the columns", path.string()));
  return table;
}

}  // namespace lockstep::record
