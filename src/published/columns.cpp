#include "published/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "core/characters.h"
#include "core/error.h"
#include "core/strings.h"
#include "logs/column_names.h"

namespace lockstep::published {
namespace {

using logs::known_column;
using logs::kSolutionTimeColumn;
using logs::kStepTimeColumn;

/// Are all fields of a column numbers, whatever their commas, and some there?
bool is_numeric(const core::CsvTable& table, size_t column) {
  return !table.rows.empty() && std::all_of(table.rows.begin(), table.rows.end(), [&](const auto& row) {
    return core::parse_double(row[column]) || core::has_ambiguous_comma(row[column]) || is_absent(row[column]);
  });
}

/// The first comma of a column of numbers that take_thousands left is an error.
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

/// Do commas part thousands in a column? Some field says so itself ("1,234,567", "1,234.5"), or the file is parted by
/// commas, so that "1,650" stood in quotes, and all else in the column are numbers.
bool parts_thousands(const core::CsvTable& table, size_t column) {
  const auto has = [&](const auto& is_such) {
    return std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return is_such(row[column]); });
  };
  if (!has(core::may_part_thousands)) return false;
  if (has([](const std::string& text) { return core::may_part_thousands(text) && !core::has_ambiguous_comma(text); }))
    return true;
  return table.separator == ',' && !has([](const std::string& text) {
           return !core::may_part_thousands(text) && !core::parse_double(text) && !is_absent(text);
         });
}

/// Takes commas out of fields where they part thousands, and says so where one of them could be a decimal comma.
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
    if (!doubtful.empty()) result.notes.push_back(std::move(doubtful));
  }
}

/// What the column "unit" says of a column "throughput": "" without either.
std::string throughput_unit(const core::CsvTable& table) {
  const auto column = table.find("unit");
  const bool has_throughput = std::any_of(table.columns.begin(), table.columns.end(), [](const std::string& name) {
    return core::plain_name(name) == "throughput";
  });
  if (!column || !has_throughput || table.rows.empty()) return "";
  for (size_t row = 1; row < table.rows.size(); ++row)
    if (known_column(table.rows[row][*column]) != known_column(table.rows[0][*column]))
      throw DataError(fmt::format("report: '{}' line {}, column 'unit': '{}' stands beside '{}' (line {}): rates in "
                                  "different units cannot be compared",
                                  table.source.string(), table.lines[row], table.rows[row][*column],
                                  table.rows[0][*column], table.lines[0]),
                      "convert them to one unit, or give each unit a column or a table of its own");
  return known_column(table.rows[0][*column]);
}

/// "512" in ms -> "0.512": as many digits as were printed.
std::string in_seconds(const std::string& text, int decimals) {
  const auto value = core::parse_double(text);
  return value ? fmt::format("{:.{}f}", *value / (decimals == 3 ? 1e3 : 1e6), num_decimals(text) + decimals) : text;
}

/// Takes the sign off fields like "95%" of a column of efficiencies or MFU; false where it has none.
bool take_percent_signs(core::CsvTable& table, size_t column) {
  bool has_sign = false;
  for (auto& row : table.rows) {
    if (!core::ends_with(row[column], "%")) continue;
    const std::string number(core::trim(std::string_view(row[column]).substr(0, row[column].size() - 1)));
    if (!core::parse_double(number)) continue;
    row[column] = number;
    has_sign = true;
  }
  return has_sign;
}

/// Shares instead of percent, recognised by a plain name ("efficiency") and values that are all small.
bool are_shares(const core::CsvTable& table, size_t column, const std::string& plain) {
  constexpr double kMostShare = 1.1;
  if (plain.find("pct") != std::string::npos || plain.find("percent") != std::string::npos ||
      table.columns[column].find('%') != std::string::npos)
    return false;
  return !table.rows.empty() && std::all_of(table.rows.begin(), table.rows.end(), [&](const auto& row) {
    const auto value = core::parse_double(row[column]);
    return value ? *value <= kMostShare : is_absent(row[column]);
  });
}

/// Gives one column its known name and unit, and says so. Fields that had a percent sign are no shares.
void rename_column(ResultTable& result, size_t column, const std::string& known, bool has_percent) {
  core::CsvTable& table = result.table;
  const std::string given = table.columns[column], plain = core::plain_name(given);
  std::string how;
  if (known == kStepTimeColumn) {
    if (const int decimals = logs::step_time_decimals(plain); decimals > 0) {
      for (auto& row : table.rows) row[column] = in_seconds(row[column], decimals);
      how = fmt::format(", divided by {}", decimals == 3 ? "1,000" : "1,000,000");
    }
  } else if (!has_percent && core::ends_with(known, "_pct") && are_shares(table, column, plain)) {
    for (auto& row : table.rows)
      if (const auto value = core::parse_double(row[column]))
        row[column] = fmt::format("{:.{}f}", 100 * *value, std::max(0, num_decimals(row[column]) - 2));
    how = ", times 100";
  } else if (plain == "throughput" && known == "samples_per_s") {
    how = ", since it names no unit";
  }
  table.columns[column] = known;
  result.notes.push_back(fmt::format("Column '{}' was read as {}{}.", given, known, how));
}

/// DataError for efficiencies of which some are fractions and some percent: "0.97" below "100" or "98%". Those that
/// fall from percent to less than one have values between.
void refuse_mixed_shares(const core::CsvTable& table, size_t column, const std::string& known) {
  constexpr double kMostShare = 1.1, kLeastPercent = 20;
  if (known != "efficiency_pct") return;
  std::optional<size_t> share, percent;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    const std::string& text = table.rows[row][column];
    const auto value = core::parse_double(text);
    if (!core::ends_with(text, "%")) {
      if (!value || *value <= 0) continue;
      if (*value > kMostShare && *value < kLeastPercent) return;
    }
    std::optional<size_t>& first = value && *value <= kMostShare ? share : percent;
    if (!first) first = row;
  }
  if (!share || !percent) return;
  throw DataError(fmt::format("report: '{}' line {}, column '{}': '{}' is a fraction beside '{}' (line {}), which is "
                              "percent",
                              table.source.string(), table.lines[*share], table.columns[column],
                              table.rows[*share][column], table.rows[*percent][column], table.lines[*percent]),
                  "write the whole column in percent, or all of it as fractions");
}

/// Step times and rates decide everything: two columns of one are refused. Of others the one with
/// the very name is meant.
bool is_vital(const std::string& known) {
  return known == kStepTimeColumn || known == "tflops_per_gpu" || known.find("per_s") != std::string::npos;
}

/// What follows from other columns may be missing in a row; sizes, batches, rates and times may not.
bool is_needed(const std::string& known) {
  return known == "nodes" || known == "gpus" || known == "devices" || known == "global_batch" ||
         known == "local_batch" || known == "samples_per_s" || known == "tokens_per_s" ||
         known == "samples_per_s_per_gpu" || known == "tokens_per_s_per_gpu" || known == "tflops_per_gpu" ||
         known == kStepTimeColumn;
}

/// Sizes of a name that no row has a number for are names of a device ("GPU": "h100_80gb").
bool is_name_of_device(const core::CsvTable& table, size_t column, const std::string& known) {
  if (known != "nodes" && known != "gpus" && known != "devices") return false;
  return std::none_of(table.rows.begin(), table.rows.end(), [&](const auto& row) {
    return core::parse_double(row[column]) || core::has_ambiguous_comma(row[column]) || is_absent(row[column]);
  });
}

/// Batches of several settings in each field: "64 , 32", "64 (FP32) / 128 (AMP)".
bool tells_several_batches(const core::CsvTable& table, size_t column, const std::string& known) {
  if (known != "global_batch" && known != "local_batch") return false;
  const auto num_numbers = [](const std::string& text) {
    size_t count = 0;
    for (size_t at = 0; at < text.size(); ++at)
      count += core::is_digit(text[at]) && (at == 0 || (!core::is_digit(text[at - 1]) && text[at - 1] == ' '));
    return count;
  };
  return !table.rows.empty() && std::all_of(table.rows.begin(), table.rows.end(), [&](const auto& row) {
    return !core::parse_double(row[column]) && num_numbers(row[column]) > 1;
  });
}

/// Nodes and the devices of each, where these differ between the rows (1, 4, 8, 8, 8 devices on 1, 1, 1, 2, 4 nodes):
/// a column of all devices follows.
void add_devices(ResultTable& result) {
  core::CsvTable& table = result.table;
  const auto nodes = table.find("nodes");
  if (!nodes || table.find("gpus") || table.find("devices")) return;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    if (!tells_devices_of_node(table.columns[column])) continue;
    std::vector<std::string> counts;
    bool differs = false;
    for (const auto& row : table.rows) {
      const auto all = core::parse_double(row[*nodes]), each = core::parse_double(row[column]);
      if (!all || !each) return;
      counts.push_back(fmt::format("{:g}", *all * *each));
      differs = differs || row[column] != table.rows.front()[column];
    }
    if (!differs) return;
    result.notes.push_back(
        fmt::format("Devices were computed: '{}' x '{}'.", result.given[*nodes], result.given[column]));
    table.columns.emplace_back("devices");
    result.given.emplace_back("devices");
    for (size_t row = 0; row < table.rows.size(); ++row) table.rows[row].push_back(counts[row]);
    return;
  }
}

/// Leaves out the rows that lack what all else follows from, and refuses words in columns of numbers.
void drop_incomplete_rows(ResultTable& result) {
  core::CsvTable& table = result.table;
  const core::CsvTable whole = table;
  table.rows.clear(), table.lines.clear();
  const bool has_rate = std::any_of(whole.columns.begin(), whole.columns.end(), is_vital);
  const auto place = [&](size_t row, size_t column) {
    return fmt::format("'{}' line {}, column '{}': '{}'", whole.source.string(), whole.lines[row], result.given[column],
                       whole.rows[row][column]);
  };
  std::string first;
  for (size_t row = 0; row < whole.rows.size(); ++row) {
    bool is_whole = true;
    for (size_t column = 0; column < whole.columns.size() && is_whole; ++column) {
      const std::string& text = whole.rows[row][column];
      const bool is_derived = core::ends_with(whole.columns[column], "_pct") || whole.columns[column] == "speedup";
      const bool is_only_time = !has_rate && whole.columns[column] == kSolutionTimeColumn;
      if (!is_needed(whole.columns[column]) && !is_derived && !is_only_time) continue;
      if (const auto value = core::parse_double(text); value && std::isfinite(*value)) continue;
      if (!is_absent(text))
        throw DataError(fmt::format("report: {} is no finite number", place(row, column)),
                        "write a number only; its unit belongs into the name of the column");
      if (is_derived) continue;
      is_whole = false;
      result.notes.push_back(fmt::format("Left out: {} is no value.", place(row, column)));
      if (first.empty()) first = place(row, column);
    }
    if (!is_whole) continue;
    table.rows.push_back(whole.rows[row]);
    table.lines.push_back(whole.lines[row]);
  }
  if (table.rows.empty() && !first.empty())
    throw DataError(fmt::format("report: {} is no value, and no other row of the table is whole", first),
                    "give at least one row with its size and its rate or step time");
}
/// Some work grows with the square of either.
void check_size(const core::CsvTable& table) {
  constexpr size_t kMaxColumns = 256, kMaxRows = 10'000;
  if (table.columns.size() <= kMaxColumns && table.rows.size() <= kMaxRows) return;
  throw DataError(fmt::format("report: '{}' has {} columns and {} rows, at most {} and {} are read",
                              table.source.string(), table.columns.size(), table.rows.size(), kMaxColumns, kMaxRows),
                  "keep the rows of one table of results");
}
}  // namespace

bool tells_devices_of_node(const std::string& column) { return logs::counts_devices_of_node(core::plain_name(column)); }

bool is_step_time_without_unit(const std::string& column) {
  const std::string name = core::plain_name(column);
  return name != "time" && name != "step" && logs::find_duration(name, logs::ColumnUse::kResults) == "step_time";
}

bool is_absent(const std::string& text) {
  constexpr std::array<std::string_view, 17> kWords = {"",       "-",   "--",    "---",     "?",      "x",
                                                       "n/a",    "na",  "nan",   "none",    "null",   "fail",
                                                       "failed", "oom", "error", "timeout", "missing"};
  const std::string lower = core::to_lower_ascii(text);
  return std::find(kWords.begin(), kWords.end(), lower) != kWords.end();
}

int num_decimals(const std::string& text) {
  const size_t point = text.find('.');
  return point == std::string::npos ? 0 : static_cast<int>(text.size() - point - 1);
}

ResultTable read_result_table(const std::filesystem::path& path) {
  ResultTable result{.table = core::read_table(path)};
  check_size(result.table);
  core::CsvTable& table = result.table;
  result.given = table.columns;
  take_thousands(result);
  refuse_commas(table);
  const std::string unit = throughput_unit(table);
  std::map<std::string, std::string> taken;  // known name -> as given
  for (const std::string& name : table.columns)
    if (known_column(name) == name) taken[name] = name;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    const std::string given = table.columns[column];
    std::string known = known_column(given);
    if (core::plain_name(given) == "throughput" && unit.find("per_s") != std::string::npos) known = unit;
    refuse_mixed_shares(table, column, known);
    const bool has_percent = core::ends_with(known, "_pct") && take_percent_signs(table, column);
    if (known == given || (known == kSolutionTimeColumn && !is_numeric(table, column))) continue;
    if (is_name_of_device(table, column, known)) continue;
    if (tells_several_batches(table, column, known)) {
      result.notes.push_back(fmt::format("Column '{}' tells several batches in each row and was not read.", given));
      continue;
    }
    const auto [other, is_new] = taken.emplace(known, given);
    if (!is_new && is_vital(known))
      throw DataError(fmt::format("report: '{}': the columns '{}' and '{}' both tell {}", path.string(), other->second,
                                  given, known),
                      "keep one of them, or name the other so that it is not taken for the same");
    if (is_new) rename_column(result, column, known, has_percent);
  }
  drop_incomplete_rows(result);
  add_devices(result);
  return result;
}

}  // namespace lockstep::published
