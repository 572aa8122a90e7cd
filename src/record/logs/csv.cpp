// step,step_time_s,loss          one line per step (or interval), columns in any order, known by name
// 0,0.512,7.1
//
// A time column is needed; units are taken from its name. Lines that begin with '#' are comments. A table with nodes or devices and without steps is one of
// points (record/table.h), whatever times it has.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "record/logs/parser.h"
#include "record/table.h"

namespace lockstep::record {
namespace {

enum class Field { kStep, kEpoch, kNumSteps, kRank, kStepTime, kDataWait, kSamples, kTokens, kLoss, kSamplesSeen, kRate, kTflops, kTime, kSize, kNone };

struct Alias {
  std::string_view name;
  Field field;
};
/// Names in lower case without units, with "_" for what is no letter or digit.
constexpr std::array kAliases = std::to_array<Alias>({{"step", Field::kStep}, {"iteration", Field::kStep}, {"iter", Field::kStep}, {"global_step", Field::kStep},
                                                      {"epoch", Field::kEpoch}, {"num_steps", Field::kNumSteps}, {"rank", Field::kRank},
                                                      {"step_time", Field::kStepTime}, {"step", Field::kStepTime}, {"time_per_step", Field::kStepTime},
                                                      {"iteration_time", Field::kStepTime}, {"iter_time", Field::kStepTime}, {"batch_time", Field::kStepTime},
                                                      {"elapsed_time_per_iteration", Field::kStepTime}, {"train_step_time", Field::kStepTime},
                                                      {"train_step_timing", Field::kStepTime}, {"train_step_timing_in", Field::kStepTime},
                                                      {"data_time", Field::kDataWait}, {"data_wait", Field::kDataWait}, {"data", Field::kDataWait},
                                                      {"samples", Field::kSamples}, {"images", Field::kSamples}, {"global_batch", Field::kSamples},
                                                      {"global_batch_size", Field::kSamples}, {"tokens", Field::kTokens}, {"loss", Field::kLoss},
                                                      {"train_loss", Field::kLoss}, {"samples_seen", Field::kSamplesSeen}, {"consumed_samples", Field::kSamplesSeen},
                                                      {"samples_per_s", Field::kRate}, {"samples_per_second", Field::kRate}, {"images_per_s", Field::kRate},
                                                      {"images_per_second", Field::kRate}, {"tflops_per_device", Field::kTflops}, {"tflops_per_gpu", Field::kTflops},
                                                      {"tflops", Field::kTflops}, {"timestamp", Field::kTime}, {"time", Field::kTime}, {"unix_time", Field::kTime},
                                                      {"nodes", Field::kSize}, {"devices", Field::kSize}, {"gpus", Field::kSize}});

struct Column {
  Field field = Field::kNone;
  double unit_ms = 1000;  // of times
  bool is_unit_told = false;
  std::string name{};
  bool may_be_elapsed = false;  // "time_s": of a step, or since the start
};

/// Whole numbers, in which a comma can only part thousands.
bool is_count(Field field) {
  return field == Field::kStep || field == Field::kEpoch || field == Field::kNumSteps || field == Field::kSamples || field == Field::kTokens || field == Field::kSamplesSeen;
}

bool is_duration(Field field) { return field == Field::kStepTime || field == Field::kDataWait; }

/// "Step time (ms)" -> step time in ms. "step_ms" is a time, "step" a number.
Column column_of(std::string_view header) {
  const std::string name = plain_name(header);
  if (const auto unit = find_time_unit(name)) {
    const double ms = std::pow(10, 3 - unit->decimals);
    for (const Alias& alias : kAliases)
      if (alias.name == unit->stem && is_duration(alias.field)) return {alias.field, ms, true, std::string(header)};
    if (unit->stem == "time") return {Field::kStepTime, ms, true, std::string(header), true};
  }
  for (const Alias& alias : kAliases)
    if (alias.name == name) return {.field = alias.field, .name = std::string(header)};
  return {.name = std::string(header)};
}

std::vector<Column> columns_of(std::string_view line) {
  std::vector<Column> columns;
  if (const auto names = split_csv_line(line, separator_of(line)))
    for (const std::string& name : *names) columns.push_back(column_of(name));
  return columns;
}

bool has_field(const std::vector<Column>& columns, Field field) {
  return std::any_of(columns.begin(), columns.end(), [&](const Column& column) { return column.field == field; });
}

bool are_steps(const std::vector<Column>& columns) {
  return has_field(columns, Field::kStepTime) && (has_field(columns, Field::kStep) || !has_field(columns, Field::kSize));
}

/// A time in a cell, with its unit where the cell tells one: "512 ms".
struct CellTime {
  double value = 0;
  std::optional<double> unit_ms{};
};
std::optional<CellTime> read_cell_time(const std::string& text) {
  std::string_view rest;
  const auto number = read_number(text, &rest);
  rest = core::trim(rest);
  if (!number || *number < 0) return std::nullopt;
  if (rest.empty()) return CellTime{*number};
  for (const auto& [unit, ms] : {std::pair{"ms", 1.0}, {"us", 1e-3}, {"s", 1000.0}, {"sec", 1000.0}, {"seconds", 1000.0}})
    if (rest == unit) return CellTime{*number, ms};
  return std::nullopt;
}

/// A step time and where it stands.
struct PlacedTime {
  double ms = 0;
  int64_t line = 0;
};

/// Do times without a unit of their own fall into two groups of about a thousand, as seconds among milliseconds do? Then one of either.
std::optional<std::pair<PlacedTime, PlacedTime>> find_two_units(std::vector<PlacedTime> times) {
  constexpr size_t kFewest = 10;
  // Rarer long ones may be stalls, which are shown as such; no step takes a thousandth of the others, so the short ones may be few.
  constexpr double kMinGap = 100, kMinLongShare = 0.2, kMinRatio = 300, kMaxRatio = 3000;
  if (times.size() < kFewest) return std::nullopt;
  std::stable_sort(times.begin(), times.end(), [](const PlacedTime& a, const PlacedTime& b) { return a.ms < b.ms; });
  size_t split = 1;
  for (size_t at = 1; at < times.size(); ++at)
    if (times[at].ms / times[at - 1].ms > times[split].ms / times[split - 1].ms) split = at;
  const double long_share = static_cast<double>(times.size() - split) / static_cast<double>(times.size());
  const double ratio = times[(split + times.size()) / 2].ms / times[split / 2].ms;
  if (times[split].ms / times[split - 1].ms < kMinGap || long_share < kMinLongShare || ratio < kMinRatio || ratio > kMaxRatio) return std::nullopt;
  return std::pair(times.front(), times[split]);
}

/// A row that waits for the end of its column, by which step time and elapsed time are told apart.
struct HeldRow {
  LogLine line{};
  LogRow row{};
  bool is_start = false;
};

/// For each row the one before it of the same rank and start; nothing for a rank's first.
std::vector<std::optional<size_t>> rows_before(const std::vector<HeldRow>& rows) {
  std::vector<std::optional<size_t>> before(rows.size());
  std::map<int, size_t> last;
  for (size_t at = 0; at < rows.size(); ++at) {
    if (rows[at].is_start) last.clear();
    const auto [place, is_new] = last.try_emplace(rows[at].line.rank.value_or(-1), at);
    if (!is_new) before[at] = std::exchange(place->second, at);
  }
  return before;
}

class CsvParser : public LogParser {
 public:
  using LogParser::LogParser;

  LineUse read(const LogLine& line) override {
    if (line.text.empty() || line.text.front() == '#') return LineUse::kOther;
    if (columns_.empty()) {
      read_header(line.text);
      return LineUse::kOther;
    }
    if (line.text == header_) {  // the program started again and appended
      is_start_ = true;
      num_rows_ = 0;
      return LineUse::kOther;
    }
    const auto fields = split_csv_line(line.text, separator_);
    if (!fields || fields->size() != columns_.size()) return LineUse::kRejected;
    LogRow row{.step = num_rows_};
    LogLine stamped = line;
    stamped.time_s.reset();
    for (size_t at = 0; at < columns_.size(); ++at)
      if (!(*fields)[at].empty() && !set_field(columns_[at], (*fields)[at], row, stamped)) return LineUse::kRejected;
    ++num_rows_;
    if (!has_step_) row.num_steps = 1;
    if (const auto batch = known_batch(); batch && std::isnan(row.samples)) row.samples = static_cast<double>(*batch);
    stamped.text = {};
    HeldRow held{.line = stamped, .row = row, .is_start = std::exchange(is_start_, false)};
    if (!may_be_elapsed_) return take(held);
    held_.push_back(held);
    return LineUse::kUsed;
  }

  void finish() override {
    take_held();
    for (const auto& [words, odd] : odd_units_)
      builder_.count_problem(fmt::format("{}; {} such {} left out (the first is line {})", words, odd.count, odd.count == 1 ? "line was" : "lines were", odd.first_line));
    if (const auto two = find_two_units(std::move(bare_times_)))
      throw DataError(fmt::format("record: '{}': the step times fall into two groups a factor of a thousand apart, {:g} ms (line {}) and {:g} ms (line {}): seconds and milliseconds in "
                                  "one column", builder_.run().source.string(), two->first.ms, two->first.line, two->second.ms, two->second.line),
                      "write one unit in the whole column, or the unit behind each number (512 ms, 0.498 s)");
  }

 private:
  LineUse take(const HeldRow& held) {
    if (held.is_start) builder_.start_attempt();
    if (held.row.step_ms > 0 && std::isfinite(held.row.step_ms) && held.row.unit_ms == 0) bare_times_.push_back({held.row.step_ms, held.line.number});
    return add(held.line, held.row);
  }

  /// A column "time_s" that rises at every row is time since the start; the rows get their differences.
  void take_held() {
    constexpr size_t kFewest = 8;  // step times that rise so often by chance: one file in 40,000
    const auto before = rows_before(held_);
    size_t num_pairs = 0, num_rises = 0;
    for (size_t at = 0; at < held_.size(); ++at)
      if (before[at]) ++num_pairs, num_rises += held_[at].row.step_ms > held_[*before[at]].row.step_ms ? 1 : 0;
    if (num_pairs + 1 < kFewest || num_rises < num_pairs) {
      for (const HeldRow& held : held_)
        if (take(held) != LineUse::kUsed) {
          ++builder_.run().num_rejected_lines;
          builder_.count_problem("a row was left out: its step time is no time above zero");
        }
      return;
    }
    builder_.count_problem(fmt::format("the column '{}' rises at every row, so it is time since the start: the steps' times are the differences of the rows, and the first row has none",
                                       elapsed_name_));
    bool is_start = false;
    for (size_t at = 0; at < held_.size(); ++at) {
      is_start = is_start || held_[at].is_start;
      if (!before[at]) continue;
      HeldRow held = held_[at];
      const HeldRow& last = held_[*before[at]];
      const int64_t num_steps = has_step_ ? std::max<int64_t>(held.row.step - last.row.step, 1) : 1;
      held.row.step_ms = (held.row.step_ms - last.row.step_ms) / static_cast<double>(num_steps);
      held.row.num_steps = static_cast<int32_t>(std::min<int64_t>(num_steps, 1'000'000'000));
      held.is_start = std::exchange(is_start, false);
      take(held);
    }
  }

  struct OddUnit {
    int64_t count = 0, first_line = 0;
  };

  void read_header(std::string_view text) {
    header_ = text;
    separator_ = separator_of(text);
    columns_ = columns_of(text);
    has_step_ = has_field(columns_, Field::kStep);
    check_doubles();
    for (const Column& column : columns_)
      if (column.field == Field::kStepTime && column.may_be_elapsed) may_be_elapsed_ = true, elapsed_name_ = column.name;
    if (are_steps(columns_)) return;
    throw DataError(fmt::format("record: '{}' is no table of steps with their times; its first line is '{}'", builder_.run().source.string(), text),
                    "name one step_time_s, step_time_ms, batch_time_s or iteration_time_ms; a table of points (nodes, samples_per_s) is no log of steps");
  }

  /// Of two columns that mean the same the first is read; two step times are refused, since the report hangs on them.
  void check_doubles() {
    std::map<Field, std::string> first;
    for (Column& column : columns_) {
      if (column.field == Field::kNone) continue;
      const auto [place, is_new] = first.emplace(column.field, column.name);
      if (is_new) continue;
      if (column.field == Field::kStepTime)
        throw DataError(fmt::format("record: '{}': the columns '{}' and '{}' both tell the step time", builder_.run().source.string(), place->second, column.name),
                        "keep one of them, or name the other something else");
      builder_.count_problem(fmt::format("the columns '{}' and '{}' mean the same: the first is read", place->second, column.name));
      column.field = Field::kNone;
    }
  }

  bool refuse_unit(const LogLine& line, const std::string& words) {
    OddUnit& odd = odd_units_[words];
    if (odd.count++ == 0) odd.first_line = line.number;
    return false;
  }

  /// A step time or data wait in ms; NaN after a refusal.
  bool set_duration(const Column& column, const std::string& text, LogRow& row, const LogLine& line) {
    const auto time = read_cell_time(text);
    if (!time) return false;
    if (time->unit_ms && column.is_unit_told && *time->unit_ms != column.unit_ms)
      return refuse_unit(line, fmt::format("a number in the column '{}' has another unit than the column's name tells", column.name));
    bool& has_units = (column.field == Field::kStepTime ? step_units_ : wait_units_);
    if (!column.is_unit_told && !time->unit_ms && has_units)
      return refuse_unit(line, fmt::format("numbers in the column '{}' have their unit behind them, some have none", column.name));
    has_units = has_units || time->unit_ms;
    const double ms = time->value * time->unit_ms.value_or(column.unit_ms);
    (column.field == Field::kStepTime ? row.step_ms : row.data_wait_ms) = ms;
    if (column.field == Field::kStepTime) row.unit_ms = time->unit_ms.value_or(0);
    return true;
  }

  bool set_field(const Column& column, const std::string& text, LogRow& row, LogLine& line) {
    if (column.field == Field::kNone || column.field == Field::kSize) return true;
    const bool is_thousands = is_count(column.field) && text.find(',') + 4 == text.size();
    if (has_ambiguous_comma(text) && !is_thousands)
      throw DataError(fmt::format("record: '{}' line {}, column '{}': '{}' is a number with a comma", builder_.run().source.string(), line.number, column.name, text), kCommaHint);
    if (is_duration(column.field)) return set_duration(column, text, row, line);
    if (column.field == Field::kTime)
      if (const auto stamp = read_time_stamp(text)) {
        line.time_s = stamp;
        return true;
      }
    std::string_view rest;
    const auto number = read_number(text, &rest);
    if (column.field == Field::kLoss) {  // a loss may be "nan"
      row.loss = number.value_or(kUnknown);
      return true;
    }
    if (!number || !core::trim(rest).empty() || *number < 0) return false;
    set_number(column.field, *number, row, line);
    return true;
  }

  static void set_number(Field field, double number, LogRow& row, LogLine& line) {
    constexpr double kMaxCount = 1e14, kMaxSmall = 1e9;
    switch (field) {
      case Field::kStep: row.step = static_cast<int64_t>(std::min(number, kMaxCount)); break;
      case Field::kEpoch: row.epoch = static_cast<int32_t>(std::min(number, kMaxSmall)); break;
      case Field::kNumSteps: row.num_steps = static_cast<int32_t>(std::min(number, kMaxSmall)); break;
      case Field::kRank: line.rank = static_cast<int>(std::min(number, kMaxSmall)); break;
      case Field::kSamples: row.samples = number; break;
      case Field::kTokens: row.tokens = number; break;
      case Field::kSamplesSeen: row.samples_seen = number; break;
      case Field::kRate: row.samples_per_s = number; break;
      case Field::kTflops: row.tflops_per_device = number; break;
      case Field::kTime: line.time_s = number; break;
      case Field::kStepTime:
      case Field::kDataWait:
      case Field::kSize:
      case Field::kLoss:
      case Field::kNone: break;
    }
  }

  std::string header_{};
  char separator_ = ',';
  std::vector<Column> columns_{};
  bool has_step_ = false, step_units_ = false, wait_units_ = false;  // units stand behind the numbers
  int64_t num_rows_ = 0;
  bool may_be_elapsed_ = false, is_start_ = false;
  std::string elapsed_name_{};
  std::vector<HeldRow> held_{};
  std::map<std::string, OddUnit> odd_units_{};
  std::vector<PlacedTime> bare_times_{};
};

}  // namespace

LogReader csv_reader() {
  return {.is_own_line = [](std::string_view line) { return line.find_first_of(",;\t") != std::string_view::npos && are_steps(columns_of(line)); },
          .make = [](LogBuilder& builder) -> std::unique_ptr<LogParser> { return std::make_unique<CsvParser>(builder); }};
}

}  // namespace lockstep::record
