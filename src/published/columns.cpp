#include "published/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/characters.h"
#include "core/error.h"
#include "core/strings.h"
#include "logs/column_names.h"
#include "published/added_columns.h"
#include "published/field_texts.h"
#include "published/rate_names.h"
#include "published/time_columns.h"

namespace lockstep::published {
namespace {

using logs::known_column;
using logs::kSolutionTimeColumn;
using logs::kStepTimeColumn;

/// The known name of a column of rates, and what its values are times to be in that unit.
struct KnownRate {
  std::string known{};  ///< Empty: no rate.
  double scale = 1;
  bool operator==(const KnownRate&) const = default;
};

KnownRate rate_of_text(const std::string& text) {
  if (const std::string known = known_column(text); known.find("per_s") != std::string::npos && known != text)
    return {known, 1};
  const RateName rate = parse_rate_name(text);
  const std::string known = known_rate(rate);
  return known.empty() ? KnownRate{} : KnownRate{known, rate.scale};
}

/// A rate that names no unit of its own: of all devices, or of one.
bool is_throughput_of_all(const std::string& plain) { return plain == "throughput" || plain == "total_throughput"; }
bool is_throughput_of_device(const std::string& plain) {
  return plain == "throughput_per_gpu" || plain == "throughput_gpu" || plain == "throughput_per_device";
}

/// What the column "unit" says of a column "throughput"; nothing without either. DataError for a unit that is not
/// known.
KnownRate throughput_unit(const core::CsvTable& table) {
  const auto column = table.find("unit");
  const bool has_throughput = std::any_of(table.columns.begin(), table.columns.end(), [](const std::string& name) {
    const std::string plain = core::plain_name(name);
    return is_throughput_of_all(plain) || is_throughput_of_device(plain);
  });
  if (!column || !has_throughput) return {};
  std::optional<size_t> first;
  KnownRate unit;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    const std::string& text = table.rows[row][*column];
    if (is_absent(text)) continue;
    const KnownRate own = rate_of_text(text);
    if (own.known.empty())
      throw DataError(fmt::format("report: '{}' line {}, column 'unit': '{}' is no unit of a rate that is known",
                                  table.source.string(), table.lines[row], text),
                      "write samples/s or tokens/s (k or M before it, /min or /h behind it, /GPU for one device), or "
                      "TFLOP/s/GPU; give steps as step_time_s beside global_batch");
    if (!first) first = row, unit = own;
    if (own == unit) continue;
    throw DataError(
        fmt::format("report: '{}' line {}, column 'unit': '{}' stands beside '{}' (line {}): rates in "
                    "different units cannot be compared",
                    table.source.string(), table.lines[row], text, table.rows[*first][*column], table.lines[*first]),
        "convert them to one unit, or give each unit a column or a table of its own");
  }
  return unit;
}

/// What a column is, by its name and, for a throughput without a unit, by the column "unit".
KnownRate known_of(const std::string& given, const KnownRate& unit) {
  const std::string plain = core::plain_name(given), known = known_column(given);
  if (is_throughput_of_all(plain) && !unit.known.empty()) return unit;
  if (is_throughput_of_device(plain) && !unit.known.empty())
    return {unit.known + (core::ends_with(unit.known, "_per_gpu") ? "" : "_per_gpu"), unit.scale};
  if (plain == "throughput_per_device") return {"samples_per_s_per_gpu", 1};
  if (known != given) return {known, 1};
  const SpeedName speed = read_speed_name(given);
  if (speed.counted == Counted::kStep && speed.unit_s > 0) return {std::string(kStepTimeColumn), speed.unit_s};
  if (const BatchName batch = read_batch_name(given); batch.scale != 1 && !batch.is_in_tokens) {
    if (batch.of == BatchOf::kAll) return {"global_batch", batch.scale};
    if (batch.of == BatchOf::kDevice) return {"local_batch", batch.scale};
  }
  const KnownRate rate = rate_of_text(given);
  return rate.known.empty() ? KnownRate{given, 1} : rate;
}

/// "10.4" in thousands -> "1.04e4", with the digits that were printed; per minute: as many decimals more as the unit
/// takes.
std::string scaled(const std::string& text, double scale) {
  const auto value = core::parse_double(text);
  if (!value) return text;
  if (scale < 1) {
    const int more = static_cast<int>(std::ceil(-std::log10(scale)));
    return fmt::format("{:.{}f}", *value * scale, std::max(0, num_decimals(text) + more + 2));
  }
  if (*value == 0) return text;
  const int leading = static_cast<int>(std::floor(std::log10(std::abs(*value))));
  const std::string number = fmt::format("{:.{}e}", *value * scale, std::max(0, leading + num_decimals(text)));
  return core::replace_all(core::replace_all(number, "e+0", "e"), "e+", "e");
}

/// "512" in ms -> "0.512": as many digits as were printed.
std::string in_seconds(const std::string& text, int decimals) {
  const auto value = core::parse_double(text);
  return value
             ? fmt::format("{:.{}f}", *value / (decimals == 3 ? 1e3 : 1e6), std::max(0, num_decimals(text) + decimals))
             : text;
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

/// Gives one column its known name and unit (`scale`: what its values are times), and says so, with `how` behind it
/// where nothing else is said. Fields that had a percent sign are no shares.
void rename_column(ResultTable& result, size_t column, const std::string& known, bool has_percent, double scale,
                   std::string how) {
  core::CsvTable& table = result.table;
  const std::string given = table.columns[column], plain = core::plain_name(given);
  if (const int decimals = logs::step_time_decimals(given); known == kStepTimeColumn && decimals > 0) {
    for (auto& row : table.rows) row[column] = in_seconds(row[column], decimals);
    how = fmt::format(", divided by {}", decimals == 3 ? "1,000" : "1,000,000");
  } else if (!has_percent && core::ends_with(known, "_pct") && are_shares(table, column, plain)) {
    for (auto& row : table.rows)
      if (const auto value = core::parse_double(row[column]))
        row[column] = fmt::format("{:.{}f}", 100 * *value, std::max(0, num_decimals(row[column]) - 2));
    how = ", times 100";
  } else if (scale != 1) {
    const bool is_time = known == kStepTimeColumn;  // 60 seconds make digits that no minute had
    for (auto& row : table.rows)
      if (const auto value = core::parse_double(row[column]))
        row[column] = is_time ? fmt::format("{:.15g}", *value * scale) : scaled(row[column], scale);
    how = scale > 1 ? fmt::format(", times {:g}", scale) : fmt::format(", divided by {:g}", 1 / scale);
  }
  table.columns[column] = known;
  const bool is_same_name = how.empty() && core::plain_name(given) == known;  // but for its case
  if (!is_same_name) result.notes.push_back(fmt::format("Column '{}' was read as {}{}.", given, known, how));
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
  return counts_places(known) || known == "global_batch" || known == "local_batch" || known == "samples_per_s" ||
         known == "tokens_per_s" || known == "samples_per_s_per_gpu" || known == "tokens_per_s_per_gpu" ||
         known == "tflops_per_gpu" || known == kStepTimeColumn;
}

/// Sizes of a name that no row has a number for are names of a device ("GPU": "h100_80gb").
bool is_name_of_device(const core::CsvTable& table, size_t column, const std::string& known) {
  if (!counts_places(known)) return false;
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

/// What to write instead of a field that is no number.
const char* number_hint(const std::string& text) {
  const size_t end = number_end(text);
  const std::string rest(core::trim(std::string_view(text).substr(end)));
  if (end > 0 && text.find(',') < end) return core::kCommaHint;
  if (end > 0 && (rest == "k" || rest == "K" || rest == "m" || rest == "M"))
    return "write the number in full: a prefix is read in rates and in batches of all devices alone (k, K, M)";
  if (end > 0 && rest.size() > 1 && rest.front() == '(')
    return "write one number; an uncertainty is written '2495 +- 12', and '2495(12)' may mean anything";
  return "write a number only; its unit belongs into the name of the column";
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
        throw DataError(fmt::format("report: {} is no finite number", place(row, column)), number_hint(text));
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

/// "# A100,images/s" above rows of numbers: the sign before the first name counts what follows it.
void take_counting_sign(core::CsvTable& table) {
  if (!table.is_header_comment) return;
  const std::string counted = "# " + table.columns.front();
  if (!counts_places(known_column(table.columns.front())) && counts_places(known_column(counted)))
    table.columns.front() = counted;
}
}  // namespace

bool tells_devices_of_node(const std::string& column) { return logs::counts_devices_of_node(core::plain_name(column)); }

std::string known_name(const std::string& column) { return known_column(column); }

bool is_known_name(const std::string& column) {
  return column == kStepTimeColumn || column == kSolutionTimeColumn ||
         logs::find_quantity(column, logs::ColumnUse::kResults) == column;
}

std::string plain_column(const std::string& column) { return logs::spelled_out(core::plain_name(column)); }

bool is_time_of_nothing(const std::string& column) { return logs::may_be_whole_time(core::plain_name(column)); }

bool is_step_time_without_unit(const std::string& column) {
  const std::string name = core::plain_name(column);
  const SpeedName speed = read_speed_name(column);
  if (speed.counted == Counted::kStep && speed.told == ToldSpeed::kTime) return speed.unit_s == 0;
  return name != "time" && name != "step" && logs::find_duration(name, logs::ColumnUse::kResults) == "step_time";
}

int num_decimals(const std::string& text) {
  const size_t exponent = text.find_first_of("eE"), digits = std::min(exponent, text.size()), point = text.find('.');
  const int decimals = point >= digits ? 0 : static_cast<int>(digits - point - 1);
  constexpr double kMostPower = 400;  // of fp64 is 308
  const double power = exponent == std::string::npos ? 0 : core::parse_double(text.substr(exponent + 1)).value_or(0);
  return std::isfinite(power) ? decimals - static_cast<int>(std::clamp(power, -kMostPower, kMostPower)) : decimals;
}

ResultTable read_result_table(const std::filesystem::path& path) {
  ResultTable result{.table = core::read_table(path)};
  check_size(result.table);
  core::CsvTable& table = result.table;
  take_counting_sign(table);
  result.given = table.columns;
  take_unit_row(result);
  take_uncertainties(result);
  take_counted_things(result);
  take_gaps(result);
  take_decimal_commas(result);
  take_units(result);
  take_thousands(result);
  refuse_commas(table);
  take_times_side_by_side(result);
  const KnownRate unit = throughput_unit(table);
  const std::optional<size_t> whole_time = find_whole_time(result);
  std::map<std::string, std::string> taken;  // known name -> as given
  for (const std::string& name : table.columns)
    if (known_column(name) == name) taken[name] = name;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    const std::string given = table.columns[column];
    auto [known, scale] = known_of(given, unit);
    if (column == whole_time) known = kSolutionTimeColumn;
    refuse_mixed_shares(table, column, known);
    const bool has_percent = core::ends_with(known, "_pct") && take_percent_signs(table, column);
    const bool is_clock = known == kSolutionTimeColumn && !is_numeric(table, column);
    if (is_clock && !take_clock_times(result, column)) continue;
    if (known == kSolutionTimeColumn && result.solution_unit_s == 0)
      result.solution_unit_s = is_clock ? 1 : solution_unit_s(given);
    take_prefixes(result, column, known);
    if (known == given && scale == 1) {
      if (is_clock) result.notes.push_back(fmt::format("Times of column '{}' were read as seconds.", given));
      continue;
    }
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
    const bool is_unit_missing = core::plain_name(given) == "throughput" && unit.known.empty();
    const char* how = is_clock ? ", in seconds" : is_unit_missing ? ", since it names no unit" : "";
    if (is_new) rename_column(result, column, known, has_percent, scale, how);
  }
  add_sizes(result);
  drop_incomplete_rows(result);
  take_devices_of_node(result);
  add_devices(result);
  add_accumulated_batches(result);
  return result;
}

}  // namespace lockstep::published
