#include "core/csv_table.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/line_reader.h"
#include "core/strings.h"

namespace lockstep::core {

std::optional<size_t> CsvTable::find(std::string_view column) const {
  const auto found = std::find(columns.begin(), columns.end(), column);
  if (found == columns.end()) return std::nullopt;
  return static_cast<size_t>(found - columns.begin());
}

size_t CsvTable::column(std::string_view column) const {
  if (const auto found = find(column)) return *found;
  throw DataError(fmt::format("record: '{}' has no column '{}'; its columns are '{}'", source.string(), column,
                              core::join(columns, "', '")));
}

const std::string& CsvTable::text(size_t row, std::string_view name) const { return rows.at(row).at(column(name)); }

double CsvTable::number(size_t row, std::string_view name) const {
  const std::string& field = text(row, name);
  const auto value = core::parse_double(field);
  if (!value || !std::isfinite(*value))
    throw DataError(
        fmt::format("record: '{}' line {}, column '{}': '{}' is no finite number", source.string(), lines.at(row), name,
                    field),
        has_ambiguous_comma(field) ? kCommaHint : "write a number only; its unit belongs into the name of the column");
  return *value;
}

std::vector<double> CsvTable::numbers(std::string_view name) const {
  std::vector<double> values;
  for (size_t row = 0; row < rows.size(); ++row) values.push_back(number(row, name));
  return values;
}

namespace {
/// A sign, digits, and at most letters and blanks behind them.
bool is_number_with_unit(std::string_view text) {
  text.remove_prefix(1);
  const size_t end = std::min(text.find_first_not_of("0123456789.,"), text.size());
  const auto is_unit = [](unsigned char c) { return std::isalnum(c) != 0 || c == ' ' || c == '%' || c >= 0x80; };
  return end > 0 && std::all_of(text.begin() + static_cast<std::ptrdiff_t>(end), text.end(), is_unit);
}

/// Would a spreadsheet compute it? A sign alone stands for "no value".
bool is_formula(std::string_view text) {
  if (text.size() < 2 || std::string_view("=+-@\t\r").find(text[0]) == std::string_view::npos) return false;
  const bool has_sign = text[0] == '+' || text[0] == '-';
  return !has_sign || !(core::parse_double(text.substr(1)) || is_number_with_unit(text));
}
}  // namespace

std::string csv_field(std::string_view text) {
  const std::string safe = (is_formula(text) ? "'" : "") + std::string(text);
  if (safe.find_first_of("\",;\t\r\n") == std::string::npos) return safe;
  return "\"" + core::replace_all(safe, "\"", "\"\"") + "\"";
}

std::optional<std::vector<std::string>> split_csv_line(std::string_view line, char separator) {
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  size_t quote = line.find('"'), mark = line.find(separator);  // the next ones
  for (size_t at = 0; at < line.size();) {
    if (quote < at) quote = line.find('"', at);
    if (mark < at) mark = line.find(separator, at);
    const size_t end = std::min({quote, is_quoted ? line.size() : mark, line.size()});
    fields.back() += line.substr(at, end - at);
    at = end + 1;
    if (end == quote && is_quoted && at < line.size() && line[at] == '"')
      fields.back() += line[at++];
    else if (end == quote)
      is_quoted = !is_quoted;
    else if (end == mark)
      fields.emplace_back();
  }
  if (is_quoted) return std::nullopt;
  for (std::string& field : fields) field = core::trim(field);
  return fields;
}

std::string plain_name(std::string_view header) {
  std::string name;
  for (const char c : core::to_lower_ascii(header)) {
    const bool is_word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (is_word)
      name += c;
    else if (!name.empty() && name.back() != '_')
      name += '_';
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  return name;
}

std::optional<TimeUnit> find_time_unit(std::string_view plain_name) {
  static constexpr std::pair<std::string_view, int> kUnits[] = {{"_s", 0},  {"_sec", 0},          {"_seconds", 0},
                                                                {"_ms", 3}, {"_milliseconds", 3}, {"_us", 6}};
  for (const auto& [suffix, decimals] : kUnits)
    if (core::ends_with(plain_name, suffix))
      return TimeUnit{plain_name.substr(0, plain_name.size() - suffix.size()), decimals};
  return std::nullopt;
}

char separator_of(std::string_view header) {
  const auto count = [&](char sign) { return std::count(header.begin(), header.end(), sign); };
  char most = ',';
  for (const char sign : {';', '\t'})
    if (count(sign) > count(most)) most = sign;
  return most;
}

bool has_ambiguous_comma(std::string_view field) {
  const size_t comma = field.find(',');
  if (comma == std::string_view::npos || field.find('.') != std::string_view::npos ||
      field.find(',', comma + 1) != std::string_view::npos)
    return false;
  return core::parse_double(core::replace_all(std::string(field), ",", ".")).has_value();
}

bool may_part_thousands(std::string_view field) {
  const size_t point = std::min(field.find('.'), field.size()), first = field.find(',');
  if (first == std::string_view::npos || first == 0 || first > 3 || first > point || field.front() == '0') return false;
  for (size_t at = first; at < point; at += 4)
    if (field[at] != ',' || at + 4 > point) return false;
  return field.find_first_not_of("0123456789,.") == std::string_view::npos &&
         core::parse_double(core::replace_all(std::string(field), ",", "")).has_value();
}

namespace {
/// A line of a table without what is no field: nothing for comments and empty lines.
std::string_view table_line(std::string_view line, int64_t number) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (number == 1 && core::starts_with(line, kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  while (!line.empty() && (line.back() == '\r' || line.back() == ' '))
    line.remove_suffix(1);  // a tab may end an empty last field
  while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
  return core::trim(line).empty() ? std::string_view() : line;
}

/// Names in a comment right above the first row, "#Nodes,#GPUs": as many as the row has fields, half of which or more
/// are numbers; nothing where the row is a header itself.
std::optional<std::vector<std::string>> header_in_comment(std::string_view comment, std::string_view row) {
  const char separator = separator_of(comment);
  auto names = split_csv_line(comment, separator);
  const auto fields = split_csv_line(row, separator);
  if (!names || !fields || names->size() < 2 || names->size() != fields->size()) return std::nullopt;
  const auto is_number = [](const std::string& field) {
    return core::parse_double(field).has_value() || has_ambiguous_comma(field);
  };
  const auto is_name = [&](const std::string& field) { return !field.empty() && !is_number(field); };
  const auto num_numbers = static_cast<size_t>(std::count_if(fields->begin(), fields->end(), is_number));
  if (!std::all_of(names->begin(), names->end(), is_name) || 2 * num_numbers < fields->size()) return std::nullopt;
  return names;
}
}  // namespace

std::optional<std::vector<std::string>> read_table_header(const std::filesystem::path& path) {
  LineReader reader(path);
  std::string comment;
  for (std::string_view line; reader.next(line);) {
    line = table_line(line, reader.line_number());
    if (line.empty()) continue;
    if (line.front() != '#') {
      auto names = header_in_comment(comment, line);
      return names ? names : split_csv_line(line, separator_of(line));
    }
    comment = core::trim(line.substr(1));
  }
  return std::nullopt;
}

CsvTable read_table(const std::filesystem::path& path) {
  CsvTable table{.source = path};
  char& separator = table.separator;
  LineReader reader(path);
  for (std::string_view line; reader.next(line);) {
    line = table_line(line, reader.line_number());
    if (line.empty()) continue;
    if (line.front() == '#') {
      table.comments.emplace_back(core::trim(line.substr(1)));
      continue;
    }
    const auto where = [&] { return fmt::format("record: '{}' line {}", path.string(), reader.line_number()); };
    const auto take_header = [&](std::vector<std::string> names) {
      table.columns = std::move(names);
      if (std::set(table.columns.begin(), table.columns.end()).size() != table.columns.size())
        throw DataError(where() + ": two columns have the same name", "give each column its own name");
    };
    if (table.columns.empty() && !table.comments.empty())
      if (auto names = header_in_comment(table.comments.back(), line)) {
        separator = separator_of(table.comments.back());
        take_header(std::move(*names));
        table.comments.pop_back();
      }
    if (table.columns.empty()) separator = separator_of(line);
    auto fields = split_csv_line(line, separator);
    if (!fields) throw DataError(where() + ": a quote that is never closed", "double the quotes inside a field");
    if (table.columns.empty()) {
      take_header(std::move(*fields));
      continue;
    }
    if (fields->size() != table.columns.size())
      throw DataError(
          fmt::format("{}: {} fields, but the header names {}", where(), fields->size(), table.columns.size()),
          fmt::format("put fields that contain '{}' in quotes",
                      separator == '\t' ? std::string("\\t") : std::string(1, separator)));
    table.rows.push_back(std::move(*fields));
    table.lines.push_back(static_cast<size_t>(reader.line_number()));
  }
  if (table.columns.empty())
    throw DataError(fmt::format("record: '{}' is empty: expected a line with the names of the columns", path.string()));
  return table;
}

}  // namespace lockstep::core
