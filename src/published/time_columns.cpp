// Which columns of a table are times of a whole piece of work.
#include "published/time_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "logs/column_names.h"
#include "logs/speed_names.h"
#include "published/field_texts.h"
#include "published/rate_names.h"

namespace lockstep::published {
namespace {

/// "1h30m", "2 h 05 min" and "5m32.1s" in seconds: two units or more, each smaller than the one before; nothing for
/// other texts.
std::optional<double> spelled_seconds(const std::string& text) {
  double seconds = 0, last_unit = HUGE_VAL;
  size_t num_parts = 0;
  for (size_t at = 0; at < text.size(); ++num_parts) {
    const size_t end = std::min(text.find_first_not_of("0123456789.", at), text.size());
    const auto value = core::parse_double(std::string_view(text).substr(at, end - at));
    const size_t word = std::min(text.find_first_not_of(' ', end), text.size()),
                 word_end = std::min(text.find_first_of("0123456789. ", word), text.size());
    const std::string unit = core::to_lower_ascii(text.substr(word, word_end - word));
    const double unit_s = unit == "m" ? logs::time_unit_s("min") : logs::time_unit_s(unit);
    if (!value || unit_s == 0 || unit_s >= last_unit || (num_parts > 0 && *value * unit_s >= last_unit))
      return std::nullopt;
    seconds += *value * unit_s;
    last_unit = unit_s;
    at = std::min(text.find_first_not_of(' ', word_end), text.size());
  }
  return num_parts > 1 ? std::optional(seconds) : std::nullopt;
}

/// "01:30:00", "1-02:00:00", "47:10" (minutes and seconds, or else hours and minutes) and "1h30m" in seconds; nothing
/// for other texts.
std::optional<double> clock_seconds(const std::string& text, bool are_two_hours_and_minutes = false) {
  if (const auto spelled = spelled_seconds(text)) return spelled;
  std::string rest = text;
  double days = 0;
  const size_t dash = rest.find('-');
  if (dash != std::string::npos) {
    const auto value = core::parse_double(rest.substr(0, dash));
    if (!value || *value < 0 || *value != std::floor(*value)) return std::nullopt;
    days = *value;
    rest.erase(0, dash + 1);
  }
  const std::vector<std::string> parts = core::split(rest, ":");
  if (parts.size() < 2 || parts.size() > 3 || (dash != std::string::npos && parts.size() != 3)) return std::nullopt;
  double seconds = 0;
  for (size_t at = 0; at < parts.size(); ++at) {
    const auto value = core::parse_double(parts[at]);
    const bool is_last = at + 1 == parts.size();
    if (!value || *value < 0 || (!is_last && *value != std::floor(*value)) || (at > 0 && *value >= 60))
      return std::nullopt;
    seconds = 60 * seconds + *value;
  }
  if (parts.size() == 2 && are_two_hours_and_minutes) seconds *= 60;
  return 86400 * days + seconds;
}

/// "time (h:mm)", "walltime [hh:mm]".
bool names_hours_and_minutes(const std::string& column) {
  const std::string name = core::to_lower_ascii(column);
  return name.find("h:mm") != std::string::npos && name.find("mm:ss") == std::string::npos;
}

/// "time (mm:ss)", "walltime [h:mm]".
bool names_parts(const std::string& column) {
  const std::string name = core::to_lower_ascii(column);
  return name.find("mm:ss") != std::string::npos || names_hours_and_minutes(column);
}

}  // namespace

bool take_clock_times(ResultTable& result, size_t column) {
  core::CsvTable& table = result.table;
  std::optional<size_t> first, other;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    const std::string& text = table.rows[row][column];
    if (clock_seconds(text)) {
      if (!first) first = row;
    } else if (!is_absent(text) && !other) {
      other = row;
    }
  }
  const auto has_number = [&](const auto& row) { return core::parse_double(row[column]).has_value(); };
  const bool has_numbers = std::any_of(table.rows.begin(), table.rows.end(), has_number);
  if (!first && !has_numbers) {
    result.notes.push_back(fmt::format("Column '{}' was not read: no field of it is a time.", table.columns[column]));
    return false;
  }
  if (!first)
    other =
        static_cast<size_t>(std::find_if(table.rows.begin(), table.rows.end(),
                                         [&](const auto& row) { return !has_number(row) && !is_absent(row[column]); }) -
                            table.rows.begin());
  if (other)
    throw DataError(
        fmt::format("report: '{}' line {}, column '{}': '{}' is no time like those beside it", table.source.string(),
                    table.lines.at(*other), table.columns[column], table.rows.at(*other)[column]),
        "write the whole column as numbers of one unit, or as HH:MM:SS (D-HH:MM:SS, MM:SS, 1h30m)");
  const bool has_two_parts = std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& row) {
    return std::count(row[column].begin(), row[column].end(), ':') == 1;
  });
  if (has_two_parts && !names_parts(result.given[column])) {
    result.notes.push_back(fmt::format(
        "'{}' in column '{}' was read as minutes and seconds; where it is hours and minutes, name the column '{} "
        "(h:mm)'.",
        table.rows.at(*first)[column], result.given[column], result.given[column]));
    result.doubts.push_back(result.notes.back());
  }
  for (auto& row : table.rows)
    if (const auto seconds = clock_seconds(row[column], names_hours_and_minutes(result.given[column])))
      row[column] = fmt::format("{}", *seconds);
  return true;
}

double solution_unit_s(const std::string& column) {
  return logs::time_unit_s(core::split(core::plain_name(column), "_").back());
}

namespace {
/// Does another column tell how fast a row was, or how much it did?
bool tells_speed_or_work(const std::string& name) {
  const std::string plain = core::plain_name(name);
  if (logs::may_be_whole_time(plain)) return false;
  const std::string known = logs::known_column(name);
  return known == logs::kStepTimeColumn || known == logs::kSolutionTimeColumn || known == "tflops_per_gpu" ||
         known.find("per_s") != std::string::npos || plain.find("batch") != std::string::npos ||
         core::starts_with(plain, "throughput") || parse_rate_name(name).thing != RateThing::kNone ||
         plain.find("flop") != std::string::npos || plain.find("mfu") != std::string::npos;
}

/// Has a table sizes, and nothing that tells speed or work by its name?
bool lacks_speeds(const core::CsvTable& table) {
  const auto is_size_column = [](const std::string& name) { return counts_places(logs::known_column(name)); };
  return std::any_of(table.columns.begin(), table.columns.end(), is_size_column) &&
         std::none_of(table.columns.begin(), table.columns.end(), tells_speed_or_work);
}

bool holds_times(const core::CsvTable& table, size_t column) {
  bool has_any = false;
  for (const auto& row : table.rows) {
    if (is_absent(row[column])) continue;
    has_any = true;
    if (!core::parse_double(row[column]) && !core::has_ambiguous_comma(row[column]) && !clock_seconds(row[column]))
      return false;
  }
  return has_any;
}

constexpr const char* kTimeWords[] = {"time", "times", "walltime", "runtime", "wall", "elapsed", "clock"};
bool is_time_word(const std::string& word) {
  return std::find(std::begin(kTimeWords), std::end(kTimeWords), word) != std::end(kTimeWords);
}

/// "GROMACS (s)", "CPU time": a time of something that the name tells. Not node-hours, parts of a run, times of day nor
/// what nobody measured.
bool is_named_time(const core::CsvTable& table, size_t column) {
  const std::string& name = table.columns[column];
  if (name.find('/') != std::string::npos || logs::known_column(name) != name || !holds_times(table, column))
    return false;
  const std::vector<std::string> words = core::split(core::plain_name(name), "_");
  constexpr const char* kOthers[] = {"per",    "epoch",     "step",      "steps", "iteration", "iter",  "ideal",
                                     "linear", "stamp",     "queue",     "wait",  "waiting",   "start", "end",
                                     "date",   "limit",     "node",      "core",  "nodes",     "cores", "expected",
                                     "device", "requested", "predicted", "error", "std",       "stddev"};
  const auto is_other = [&](const std::string& word) {
    return std::find(std::begin(kOthers), std::end(kOthers), word) != std::end(kOthers);
  };
  if (words.size() < 2 || std::any_of(words.begin(), words.end(), is_other)) return false;
  const bool has_unit = logs::time_unit_s(words.back()) > 0 && words.back() != "d";
  const bool is_hours_of_device = has_unit && (words[words.size() - 2] == "gpu" || words[words.size() - 2] == "cpu");
  return (has_unit && !is_hours_of_device) || std::any_of(words.begin(), words.end(), is_time_word);
}

std::vector<size_t> named_times(const core::CsvTable& table) {
  std::vector<size_t> columns;
  for (size_t column = 0; column < table.columns.size(); ++column)
    if (is_named_time(table, column)) columns.push_back(column);
  return columns;
}

/// "GROMACS" of "GROMACS (s)", "CPU" of "Time CPU [s]".
std::string thing_of_time(const std::string& column) {
  std::string text = column.substr(0, column.find_first_of("([", 1));
  if (text == column && logs::time_unit_s(core::split(core::plain_name(column), "_").back()) > 0)
    text = column.substr(0, column.find_last_of("_ "));
  std::vector<std::string> kept;
  for (const std::string& word : core::split(core::replace_all(text, "_", " "), " "))
    if (!word.empty() && !is_time_word(core::to_lower_ascii(word))) kept.push_back(word);
  return kept.empty() ? column : core::join(kept, " ");
}
}  // namespace

void take_times_side_by_side(ResultTable& result) {
  core::CsvTable& table = result.table;
  const std::vector<size_t> times = named_times(table);
  const double unit_s = times.empty() ? 0 : solution_unit_s(table.columns[times.front()]);
  const auto has_unit = [&](size_t column) { return solution_unit_s(table.columns[column]) == unit_s; };
  if (times.size() < 2 || !lacks_speeds(table) || table.find("code") ||
      !std::all_of(times.begin(), times.end(), has_unit))
    return;
  std::vector<std::string> names, things;
  for (const size_t column : times) {
    names.push_back(table.columns[column]);
    things.push_back(thing_of_time(table.columns[column]));
    if (std::count(things.begin(), things.end(), things.back()) > 1) things.back() = table.columns[column];
  }
  const std::string unit = core::split(core::plain_name(names.front()), "_").back();
  const core::CsvTable whole = table;
  const std::vector<std::string> given = result.given;
  table.columns.clear(), table.rows.clear(), table.lines.clear(), result.given.clear();
  const auto is_time = [&](size_t column) { return std::find(times.begin(), times.end(), column) != times.end(); };
  for (size_t column = 0; column < whole.columns.size(); ++column)
    if (!is_time(column)) table.columns.push_back(whole.columns[column]), result.given.push_back(given[column]);
  table.columns.emplace_back("code"), result.given.emplace_back("code");
  table.columns.push_back(unit_s > 0 ? fmt::format("walltime ({})", unit) : "walltime");
  result.given.push_back(core::join(names, "', '"));
  for (size_t at = 0; at < times.size(); ++at)
    for (size_t row = 0; row < whole.rows.size(); ++row) {
      std::vector<std::string> fields;
      for (size_t column = 0; column < whole.columns.size(); ++column)
        if (!is_time(column)) fields.push_back(whole.rows[row][column]);
      fields.push_back(things[at]);
      fields.push_back(whole.rows[row][times[at]]);
      table.rows.push_back(std::move(fields));
      table.lines.push_back(whole.lines[row]);
    }
  result.notes.push_back(
      fmt::format("Columns '{}' were read as times of one piece of work each, a curve for each.", result.given.back()));
}

std::optional<size_t> find_whole_time(const ResultTable& result) {
  constexpr double kLongestStep = 10;  // seconds: what takes longer is a whole run
  const core::CsvTable& table = result.table;
  if (!lacks_speeds(table)) return std::nullopt;
  std::vector<size_t> found;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    const std::string plain = core::plain_name(table.columns[column]);
    if (!logs::may_be_whole_time(plain) || !holds_times(table, column)) continue;
    double least_s = HUGE_VAL;
    for (const auto& row : table.rows)
      if (const auto value = core::parse_double(row[column]))
        least_s = std::min(least_s, *value * solution_unit_s(table.columns[column]));
    const bool may_be_step = logs::known_column(table.columns[column]) == logs::kStepTimeColumn;
    if (!may_be_step || least_s >= kLongestStep) found.push_back(column);
  }
  if (found.empty()) found = named_times(table);
  return found.size() == 1 ? std::optional(found.front()) : std::nullopt;
}

}  // namespace lockstep::published
