#include "published/field_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "core/characters.h"
#include "core/error.h"
#include "core/strings.h"
#include "logs/column_names.h"
#include "logs/speed_names.h"
#include "published/rate_names.h"

namespace lockstep::published {

bool counts_places(const std::string& known) {
  return known == "nodes" || known == "gpus" || known == "devices" || known == "cores";
}

size_t number_end(const std::string& text) {
  size_t end = 0;
  while (end < text.size() && (core::is_digit(text[end]) || (end > 0 && (text[end] == '.' || text[end] == ',')))) ++end;
  return end;
}

bool is_numeric(const core::CsvTable& table, size_t column) {
  return !table.rows.empty() && std::all_of(table.rows.begin(), table.rows.end(), [&](const auto& row) {
    return core::parse_double(row[column]) || core::has_ambiguous_comma(row[column]) || is_absent(row[column]);
  });
}

namespace {
/// Does a table write its decimals with a point, and none with a comma?
bool writes_points(const core::CsvTable& table) {
  bool has_point = false;
  for (const auto& row : table.rows)
    for (const std::string& text : row) {
      if (core::has_ambiguous_comma(text) && !core::may_part_thousands(text)) return false;
      has_point = has_point || (text.find('.') != std::string::npos && core::parse_double(text));
    }
  return has_point;
}

/// Do commas part thousands in a column? Some field says so itself ("1,234,567", "1,234.5"), or all in the column are
/// numbers and either the file is parted by commas, so that "1,650" stood in quotes, or it writes decimal points.
bool parts_thousands(const core::CsvTable& table, size_t column) {
  const auto has = [&](const auto& is_such) {
    return std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return is_such(row[column]); });
  };
  if (!has(core::may_part_thousands)) return false;
  if (has([](const std::string& text) { return core::may_part_thousands(text) && !core::has_ambiguous_comma(text); }))
    return true;
  const bool has_others = has([](const std::string& text) {
    return !core::may_part_thousands(text) && !core::parse_double(text) && !is_absent(text);
  });
  return !has_others && (table.separator == ',' || writes_points(table));
}

/// What stands behind the number of every field of a column, "img/s" of "432 img/s"; empty where they differ. Some
/// fields may lack it where the column's name ends with it.
std::string shared_unit(const core::CsvTable& table, size_t column) {
  const std::string plain = "_" + core::plain_name(table.columns[column]);
  std::string unit;
  bool has_bare = false;
  for (const auto& row : table.rows) {
    if (is_absent(row[column])) continue;
    const size_t end = number_end(row[column]);
    const std::string own(core::trim(std::string_view(row[column]).substr(end)));
    if (end == 0 || (!own.empty() && !unit.empty() && own != unit)) return {};
    has_bare = has_bare || own.empty();
    if (!own.empty()) unit = own;
  }
  return has_bare && !core::ends_with(plain, "_" + core::plain_name(unit)) ? std::string() : unit;
}

/// The name of a column that holds the unit of its fields too: a rate, a time, or the "x" of a ratio, which needs none.
/// Nothing for other units, and where the name has another one.
std::optional<std::string> name_with_unit(const std::string& column, const std::string& unit) {
  const std::string plain = core::plain_name(column), plain_unit = "_" + core::plain_name(unit);
  const RateName rate = parse_rate_name(unit), own = parse_rate_name(column);
  const bool is_rate = rate.is_whole && rate.thing != RateThing::kNone && rate.has_period;
  const bool is_time = logs::time_unit_s(core::plain_name(unit)) > 0 || core::find_time_unit(plain_unit).has_value();
  if (unit == "x" || ((is_rate || is_time) && core::ends_with("_" + plain, plain_unit))) return column;
  const bool has_own =
      is_rate ? own.thing != RateThing::kNone
              : core::find_time_unit(plain).has_value() || logs::time_unit_s(core::split(plain, "_").back()) > 0;
  const bool is_same = own.thing == rate.thing && own.scale == rate.scale && own.of == rate.of;
  if ((!is_rate && !is_time) || (has_own && !(is_rate && is_same))) return std::nullopt;
  return has_own ? column : fmt::format("{} ({})", column, unit);
}
}  // namespace

namespace {
/// What a cell of a row of units says: "samples/s" of "[samples/s]"; empty for no unit, nothing for other texts.
std::optional<std::string> unit_of_cell(std::string text) {
  if (text.size() > 2 && (text.front() == '[' || text.front() == '(')) text = text.substr(1, text.size() - 2);
  text = core::trim(text);
  const std::string plain = core::to_lower_ascii(text);
  if (is_absent(text) || text == "#" || text == "1") return std::string();
  constexpr std::array<std::string_view, 12> kTimes = {"s",    "sec",     "seconds", "ms", "us",    "min",
                                                       "mins", "minutes", "h",       "hr", "hours", "days"};
  const RateName rate = parse_rate_name(text);
  const bool is_rate = rate.is_whole && rate.thing != RateThing::kNone && (rate.has_period || rate.scale != 1);
  if (text == "%" || is_rate || plain == "tflops" || std::find(kTimes.begin(), kTimes.end(), plain) != kTimes.end())
    return text;
  return std::nullopt;
}

/// Removes blanks and apostrophes between the digits of the number that a field begins with: "3 950 img/s"; whether
/// there were any.
bool remove_gaps(std::string& text) {
  constexpr std::array<std::string_view, 6> kGaps = {" ",           "'", "\xc2\xa0", "\xe2\x80\xaf", "\xe2\x80\x89",
                                                     "\xe2\x80\x99"};
  const auto num_digits = [&](size_t at) {
    size_t end = at;
    while (end < text.size() && core::is_digit(text[end])) ++end;
    return end - at;
  };
  size_t end = num_digits(0);
  if (end == 0 || end > 3 || text.front() == '0') return false;
  bool has_gaps = false;
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view gap : kGaps)
      if (text.compare(end, gap.size(), gap) == 0 && num_digits(end + gap.size()) == 3) {
        text.erase(end, gap.size());
        end += 3;
        found = has_gaps = true;
        break;
      }
  }
  return has_gaps;
}

/// The number that a field begins with; nothing where it begins with something else.
std::optional<std::string> number_of(const std::string& text) {
  const size_t end = number_end(text);
  return end == 0 ? std::nullopt : std::optional(text.substr(0, end));
}

/// A number of a table with decimal commas, as a point would write it: "2.495,3" -> "2495.3", "2.495" -> "2495".
/// Nothing for what it would not write: "0.97".
std::optional<std::string> with_point(const std::string& number) {
  std::string mirrored = number;
  for (char& sign : mirrored) sign = sign == ',' ? '.' : sign == '.' ? ',' : sign;
  if (mirrored.find(',') != std::string::npos) {
    if (!core::may_part_thousands(mirrored)) return std::nullopt;
    mirrored = core::replace_all(mirrored, ",", "");
  }
  return core::parse_double(mirrored) ? std::optional(mirrored) : std::nullopt;
}

/// Columns of numbers, with and without a sign of percent, and of numbers that all have one unit.
std::vector<size_t> number_columns(const core::CsvTable& table) {
  std::vector<size_t> columns;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    const bool has_unit = !shared_unit(table, column).empty();
    if (std::all_of(table.rows.begin(), table.rows.end(), [&](const auto& row) {
          const std::string rest(core::trim(std::string_view(row[column]).substr(number_end(row[column]))));
          return is_absent(row[column]) || (number_of(row[column]) && (rest.empty() || rest == "%" || has_unit));
        }))
      columns.push_back(column);
  }
  return columns;
}

/// What the points of a column say: they part thousands, they are decimal, or either may be.
enum class PointsOf { kNone, kThousands, kDecimals, kEither };

/// Points of sizes part thousands, since nothing has 1.024 nodes. So do those of "1.234.567", and of "1.250" where
/// every whole number beside it would be a hundred times as large, or more ("625"). "138.125" beside "140" is decimal,
/// and "1.910" beside "1" mostly is: a speed-up of one is printed so.
PointsOf read_points(const core::CsvTable& table, size_t column) {
  constexpr double kTimesAsLarge = 100;
  bool has_points = false, is_certain = false;
  double largest_pointed = 0, least_whole = HUGE_VAL;
  for (const auto& row : table.rows) {
    const auto number = number_of(row[column]);
    if (!number) continue;
    const auto value = with_point(*number);
    if (!value || number->find(',') != std::string::npos) return PointsOf::kDecimals;
    const auto num_points = std::count(number->begin(), number->end(), '.');
    has_points = has_points || num_points > 0;
    is_certain = is_certain || num_points > 1;
    if (num_points == 0) least_whole = std::min(least_whole, core::parse_double(*value).value_or(0));
    if (num_points == 1) largest_pointed = std::max(largest_pointed, core::parse_double(*number).value_or(0));
  }
  const bool has_large = least_whole < HUGE_VAL && least_whole >= kTimesAsLarge * largest_pointed;
  if (!has_points) return PointsOf::kNone;
  const bool is_size = counts_places(logs::known_column(table.columns[column]));
  return is_certain || is_size || has_large ? PointsOf::kThousands : PointsOf::kEither;
}

/// Points of a file without commas part thousands in all of its columns where one column says so and none has decimals;
/// where nothing says what they are, a doubt asks.
void take_grouping_points(ResultTable& result, const std::vector<size_t>& columns) {
  core::CsvTable& table = result.table;
  bool has_thousands = false;
  std::vector<std::string> unclear;
  std::string example, decimal;
  for (const size_t column : columns) {
    const PointsOf points = read_points(table, column);
    if (points == PointsOf::kDecimals) return;
    has_thousands = has_thousands || points == PointsOf::kThousands;
    if (points == PointsOf::kEither) unclear.push_back(table.columns[column]);
    for (const auto& row : table.rows)
      if (const auto number = number_of(row[column]);
          number && number->find('.') != std::string::npos && (example.empty() || points == PointsOf::kThousands)) {
        example = fmt::format("'{}' was read as {}", *number, with_point(*number).value());
        decimal = *number;
      }
  }
  if (has_thousands) {
    for (const size_t column : columns)
      for (auto& row : table.rows)
        if (const auto number = number_of(row[column])) row[column].replace(0, number->size(), *with_point(*number));
    result.note_doubt(fmt::format("Points of this table part thousands: {}.", example));
  } else if (!unclear.empty()) {
    result.note_doubt(
        fmt::format("Points of column '{}' were read as decimal points: '{}' is {:g}. If they part thousands, write "
                    "{} without a point.",
                    core::join(unclear, "', '"), decimal, core::parse_double(decimal).value_or(0), decimal));
  }
}
}  // namespace

void take_unit_row(ResultTable& result) {
  core::CsvTable& table = result.table;
  if (table.rows.size() < 2) return;
  std::vector<std::string> units;
  for (const std::string& cell : table.rows.front()) {
    auto unit = unit_of_cell(cell);
    if (!unit) return;
    units.push_back(std::move(*unit));
  }
  if (std::all_of(units.begin(), units.end(), [](const std::string& unit) { return unit.empty(); })) return;
  for (size_t column = 0; column < units.size(); ++column)
    if (!units[column].empty()) table.columns[column] += " (" + units[column] + ")";
  result.notes.push_back(fmt::format("Line {} was read as the units of the columns.", table.lines.front()));
  table.rows.erase(table.rows.begin());
  table.lines.erase(table.lines.begin());
}

void take_gaps(ResultTable& result) {
  core::CsvTable& table = result.table;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    if (!std::all_of(table.rows.begin(), table.rows.end(),
                     [&](const auto& row) { return is_absent(row[column]) || core::is_digit(row[column].front()); }))
      continue;
    std::string example;
    for (auto& row : table.rows) {
      const std::string given = row[column];
      if (remove_gaps(row[column]) && example.empty()) example = fmt::format("'{}' was read as {}", given, row[column]);
    }
    if (!example.empty()) result.note_doubt(fmt::format("Column '{}': {}.", table.columns[column], example));
  }
}

void take_decimal_commas(ResultTable& result) {
  core::CsvTable& table = result.table;
  if (table.separator != ';' && table.separator != '\t') return;
  const std::vector<size_t> columns = number_columns(table);
  std::string example;
  for (const size_t column : columns)
    for (const auto& row : table.rows) {
      const auto number = number_of(row[column]);
      if (!number) continue;
      const auto value = with_point(*number);
      if (!value) return;  // "0.97" and "1,234,567" are of a table with decimal points
      const bool is_certain = number->find(',') != std::string::npos && !core::may_part_thousands(*number);
      if (is_certain && example.empty()) example = fmt::format("'{}' was read as {}", *number, *value);
    }
  if (example.empty()) return take_grouping_points(result, columns);
  std::string thousands;
  for (const size_t column : columns)
    for (auto& row : table.rows) {
      const auto number = number_of(row[column]);
      if (!number) continue;
      const std::string value = with_point(*number).value();
      if (number->find(',') == std::string::npos && value != *number && thousands.empty())
        thousands = fmt::format(", and points part thousands: '{}' was read as {}", *number, value);
      row[column].replace(0, number->size(), value);
    }
  result.note_doubt(fmt::format("Commas of this table are decimal commas: {}{}.", example, thousands));
}

void take_thousands(ResultTable& result) {
  core::CsvTable& table = result.table;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    if (!parts_thousands(table, column)) continue;
    std::string doubtful;
    for (auto& row : table.rows) {
      if (!core::may_part_thousands(row[column])) continue;
      const std::string given = row[column];
      row[column] = core::replace_all(given, ",", "");
      if (doubtful.empty() && core::has_ambiguous_comma(given))
        doubtful = fmt::format("Commas in column '{}' part thousands: '{}' was read as {}.", table.columns[column],
                               given, row[column]);
    }
    if (!doubtful.empty()) result.note_doubt(std::move(doubtful));
  }
}

void take_units(ResultTable& result) {
  core::CsvTable& table = result.table;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    const std::string unit = shared_unit(table, column);
    if (unit.empty()) continue;
    const auto name = name_with_unit(table.columns[column], unit);
    if (!name || table.find(*name).value_or(column) != column) continue;
    for (auto& row : table.rows)
      if (!is_absent(row[column])) row[column].resize(number_end(row[column]));
    result.notes.push_back(fmt::format("The fields of column '{}' are in '{}'.", table.columns[column], unit));
    table.columns[column] = *name;
  }
}

void refuse_commas(const core::CsvTable& table) {
  for (size_t column = 0; column < table.columns.size(); ++column) {
    if (!is_numeric(table, column)) continue;
    std::optional<size_t> refused;
    for (size_t row = 0; row < table.rows.size(); ++row) {
      const std::string& text = table.rows[row][column];
      if (!core::has_ambiguous_comma(text)) continue;
      if (!refused) refused = row;
      if (core::may_part_thousands(text)) continue;
      refused = row;  // which shows best what the commas of this column are
      break;
    }
    if (refused)
      throw DataError(
          fmt::format("report: '{}' line {}, column '{}': '{}' is a number with a comma", table.source.string(),
                      table.lines[*refused], table.columns[column], table.rows[*refused][column]),
          core::kCommaHint);
  }
}

namespace {
/// The place of a sign of uncertainty and its length; nothing without one.
std::optional<std::pair<size_t, size_t>> find_plus_minus(const std::string& text) {
  for (const std::string_view sign : {"\xc2\xb1", "+/-", "+-", "\\pm"})
    if (const size_t at = text.find(sign); at != std::string::npos) return std::pair(at, sign.size());
  return std::nullopt;
}

/// "2495" of "2495 +- 12", "0.51 s" of "0.51 +- 0.02 s"; nothing where either is no number.
std::optional<std::string> without_uncertainty(const std::string& text) {
  const auto sign = find_plus_minus(text);
  if (!sign) return std::nullopt;
  const std::string value(core::trim(std::string_view(text).substr(0, sign->first))),
      spread(core::trim(std::string_view(text).substr(sign->first + sign->second)));
  const size_t end = number_end(value), spread_end = number_end(spread);
  if (end == 0 || spread_end == 0) return std::nullopt;
  const std::string own_unit(core::trim(std::string_view(value).substr(end))),
      unit(core::trim(std::string_view(spread).substr(spread_end)));
  if (!own_unit.empty() && !unit.empty() && own_unit != unit && unit != "%") return std::nullopt;
  return own_unit.empty() && !unit.empty() && unit != "%" ? value + " " + unit : value;
}

/// The one thing that all fields of a column count: "nodes" of "1 node", "4 nodes"; empty where there is none.
std::string counted_thing(const core::CsvTable& table, size_t column) {
  std::string thing;
  for (const auto& row : table.rows) {
    if (is_absent(row[column])) continue;
    const size_t end = number_end(row[column]);
    const std::string word(core::trim(std::string_view(row[column]).substr(end)));
    if (end == 0 || word.empty()) return {};
    std::string known;
    for (const char* ending : {"s", ""})  // "1 core", "4 cores"
      if (known.empty() && counts_places(logs::known_column(core::to_lower_ascii(word) + ending)))
        known = logs::known_column(core::to_lower_ascii(word) + ending);
    if (known.empty()) return {};
    if (!thing.empty() && thing != known) return {};
    thing = known;
  }
  return thing;
}
}  // namespace

void take_uncertainties(ResultTable& result) {
  core::CsvTable& table = result.table;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    std::string example;
    for (auto& row : table.rows) {
      auto value = without_uncertainty(row[column]);
      if (!value) continue;
      if (example.empty()) example = fmt::format("'{}' was read as {}", row[column], *value);
      row[column] = std::move(*value);
    }
    if (!example.empty())
      result.note_doubt(
          fmt::format("Column '{}': {}. What an uncertainty means (a deviation, an interval) a table does not tell, so "
                      "it is not used; repeats as rows of their own give intervals.",
                      table.columns[column], example));
  }
}

void take_counted_things(ResultTable& result) {
  core::CsvTable& table = result.table;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    const std::string thing = counted_thing(table, column);
    if (thing.empty()) continue;
    const std::string known = logs::known_column(table.columns[column]);
    const bool is_size = counts_places(known);
    const bool is_known = known != table.columns[column];
    if (is_size && known != thing)
      throw DataError(
          fmt::format("report: '{}' line {}, column '{}': '{}' counts something else than its column",
                      table.source.string(), table.lines.front(), table.columns[column], table.rows.front()[column]),
          "name the column by what its fields count, or write numbers alone");
    if (!is_size && (is_known || table.find(thing))) continue;
    for (auto& row : table.rows)
      if (!is_absent(row[column])) row[column].resize(number_end(row[column]));
    result.notes.push_back(fmt::format("The fields of column '{}' count {}.", table.columns[column], thing));
    if (!is_size) table.columns[column] = thing;
  }
}

void take_prefixes(ResultTable& result, size_t column, const std::string& known) {
  const bool is_rate = known.find("per_s") != std::string::npos;
  if (known != "global_batch" && !is_rate) return;
  std::string example;
  for (auto& row : result.table.rows) {
    std::string& text = row[column];
    const size_t end = number_end(text);
    const auto value = core::parse_double(std::string_view(text).substr(0, end));
    const std::string rest(core::trim(std::string_view(text).substr(end)));
    if (!value || rest.size() != 1) continue;
    const char prefix = rest.front();
    if (prefix != 'k' && prefix != 'K' && prefix != 'M') continue;
    const int power = prefix == 'M' ? 6 : 3;
    const std::string number = is_rate ? fmt::format("{}e{}", text.substr(0, end), power)  // with the digits printed
                                       : fmt::format("{:.15g}", *value * (prefix == 'M' ? 1e6 : 1e3));
    if (example.empty()) example = fmt::format("'{}' was read as {}", text, number);
    text = number;
  }
  if (!example.empty()) result.note_doubt(fmt::format("Column '{}': {}.", result.given[column], example));
}

}  // namespace lockstep::published
