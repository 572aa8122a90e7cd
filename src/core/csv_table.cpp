#include "core/csv_table.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
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
  if (separator == '|' && !line.empty() && line.front() == '|') {  // a row of Markdown has one at both ends
    line.remove_prefix(1);
    if (!line.empty() && line.back() == '|') line.remove_suffix(1);
  }
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
  if (!header.empty() && header.front() == '|') return '|';
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

size_t num_filled(const std::vector<std::string>& fields) {
  return static_cast<size_t>(
      std::count_if(fields.begin(), fields.end(), [](const std::string& field) { return !field.empty(); }));
}

/// Is this the line below the header of a Markdown table, "|---|---:|", or a row of nothing but separators, as
/// spreadsheets write it?
bool is_no_row(std::string_view line) {
  return line.find_first_not_of(line.front() == '|' ? "|-: " : ",;\t\" ") == std::string_view::npos;
}

bool is_number(const std::string& field) { return core::parse_double(field).has_value() || has_ambiguous_comma(field); }

/// Is a line the title of a table: one text, with or without empty fields behind it, above a line of several names?
bool is_title(std::string_view line, std::string_view next) {
  const auto fields = split_csv_line(line, separator_of(line));
  if (!fields || num_filled(*fields) != 1) return false;
  if (core::starts_with(next, "#")) next.remove_prefix(1);
  const auto names = split_csv_line(next, separator_of(next));
  return names && num_filled(*names) > 1 && std::none_of(names->begin(), names->end(), is_number);
}

/// Names in a comment right above the first row, "#Nodes,#GPUs": as many as the row has fields, half of which or more
/// are numbers; nothing where the row is a header itself.
std::optional<std::vector<std::string>> header_in_comment(std::string_view comment, std::string_view row) {
  const char separator = separator_of(comment);
  auto names = split_csv_line(comment, separator);
  const auto fields = split_csv_line(row, separator);
  if (!names || !fields || names->size() < 2 || names->size() != fields->size()) return std::nullopt;
  const auto is_name = [&](const std::string& field) { return !field.empty() && !is_number(field); };
  const auto num_numbers = static_cast<size_t>(std::count_if(fields->begin(), fields->end(), is_number));
  if (!std::all_of(names->begin(), names->end(), is_name) || 2 * num_numbers < fields->size()) return std::nullopt;
  return names;
}
struct TableLine {
  std::string text{};
  int64_t number = 0;
};

/// The lines of a file that are comments, names or rows; `most`: as many that are no comment.
std::vector<TableLine> lines_of_table(const std::filesystem::path& path, size_t most) {
  std::vector<TableLine> lines;
  LineReader reader(path);
  size_t num_rows = 0;
  for (std::string_view line; num_rows < most && reader.next(line);) {
    line = table_line(line, reader.line_number());
    if (line.empty() || is_no_row(line)) continue;
    lines.push_back({std::string(line), reader.line_number()});
    num_rows += line.front() != '#';
  }
  return lines;
}

struct Header {
  std::vector<std::string> names{}, comments{};  ///< Comments above it, titles among them.
  char separator = ',';
  bool is_comment = false;
  size_t line = 0, first_row = 0;  ///< Places in the list of lines.
};

/// The header of a table; nothing for a file without one. DataError for a quote that is never closed.
std::optional<Header> find_header(const std::vector<TableLine>& lines, const std::filesystem::path& path) {
  Header header;
  for (size_t at = 0; at < lines.size(); ++at) {
    const std::string_view line = lines[at].text;
    const std::string_view next = at + 1 < lines.size() ? std::string_view(lines[at + 1].text) : std::string_view();
    if (line.front() == '#') {
      header.comments.emplace_back(core::trim(line.substr(1)));
      continue;
    }
    header.line = header.first_row = at;
    if (auto names = header.comments.empty() ? std::nullopt : header_in_comment(header.comments.back(), line)) {
      header.separator = separator_of(header.comments.back());
      header.names = std::move(*names);
      header.is_comment = true;
      header.comments.pop_back();
      return header;
    }
    header.separator = separator_of(line);
    auto names = split_csv_line(line, header.separator);
    if (!names)
      throw DataError(
          fmt::format("record: '{}' line {}: a quote that is never closed", path.string(), lines[at].number),
          "double the quotes inside a field");
    if (is_title(line, next)) {
      header.comments.push_back(core::join(*names, ""));
      continue;
    }
    header.names = std::move(*names);
    ++header.first_row;
    return header;
  }
  return std::nullopt;
}

void check_names(const Header& header, const TableLine& line, const std::filesystem::path& path) {
  std::set<std::string_view> known;
  for (const std::string& name : header.names)
    if (!known.insert(name).second)
      throw DataError(
          fmt::format("record: '{}' line {}: two columns have the same name '{}'", path.string(), line.number, name),
          "give each column its own name; where this line is no header, begin it with '#'");
}
}  // namespace

std::optional<std::vector<std::string>> read_table_header(const std::filesystem::path& path) {
  constexpr size_t kMaxTitles = 8;
  auto header = find_header(lines_of_table(path, kMaxTitles), path);
  return header ? std::optional(std::move(header->names)) : std::nullopt;
}

CsvTable read_table(const std::filesystem::path& path) {
  const std::vector<TableLine> lines = lines_of_table(path, std::numeric_limits<size_t>::max());
  auto header = find_header(lines, path);
  if (!header)
    throw DataError(fmt::format("record: '{}' is empty: expected a line with the names of the columns", path.string()));
  check_names(*header, lines[header->line], path);
  CsvTable table{.source = path,
                 .comments = std::move(header->comments),
                 .columns = std::move(header->names),
                 .separator = header->separator,
                 .is_header_comment = header->is_comment};
  for (size_t at = header->first_row; at < lines.size(); ++at) {
    const auto& [line, number] = lines[at];
    if (line.front() == '#') {
      table.comments.emplace_back(core::trim(std::string_view(line).substr(1)));
      continue;
    }
    const auto where = [&, number = number] { return fmt::format("record: '{}' line {}", path.string(), number); };
    auto fields = split_csv_line(line, table.separator);
    if (!fields) throw DataError(where() + ": a quote that is never closed", "double the quotes inside a field");
    if (fields->size() != table.columns.size())
      throw DataError(
          fmt::format("{}: {} fields, but the header names {}", where(), fields->size(), table.columns.size()),
          fmt::format("put fields that contain '{}' in quotes",
                      table.separator == '\t' ? std::string("\\t") : std::string(1, table.separator)));
    table.rows.push_back(std::move(*fields));
    table.lines.push_back(static_cast<size_t>(number));
  }
  return table;
}

}  // namespace lockstep::core
