// step,step_time_s,loss          one line per step (or interval), columns in any order, known by name
// 0,0.512,7.1
//
// A time column is needed; units are taken from its name. Lines that begin with '#' are comments. A table with nodes or devices and without steps is one of
// points (record/table.h), whatever times it has.
#include <algorithm>
#include <array>
#include <cmath>

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
};

bool is_duration(Field field) { return field == Field::kStepTime || field == Field::kDataWait; }

/// "Step time (ms)" -> step time in ms. "step_ms" is a time, "step" a number.
Column column_of(std::string_view header) {
  std::string name;
  for (const char c : core::to_lower_ascii(header)) {
    const bool is_word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (is_word) name += c;
    else if (!name.empty() && name.back() != '_') name += '_';
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  struct Unit {
    std::string_view suffix;
    double ms;
  };
  static constexpr Unit kUnits[] = {{"_ms", 1}, {"_milliseconds", 1}, {"_us", 1e-3}, {"_s", 1000}, {"_sec", 1000}, {"_seconds", 1000}};
  for (const Unit& unit : kUnits) {
    if (!core::ends_with(name, unit.suffix)) continue;
    const std::string_view stem = std::string_view(name).substr(0, name.size() - unit.suffix.size());
    for (const Alias& alias : kAliases)
      if (alias.name == stem && is_duration(alias.field)) return {alias.field, unit.ms};
    if (stem == "time") return {Field::kStepTime, unit.ms};
  }
  for (const Alias& alias : kAliases)
    if (alias.name == name) return {alias.field, 1000};
  return {};
}

std::vector<Column> columns_of(std::string_view line) {
  std::vector<Column> columns;
  if (const auto names = split_csv_line(line))
    for (const std::string& name : *names) columns.push_back(column_of(name));
  return columns;
}

bool has_field(const std::vector<Column>& columns, Field field) {
  return std::any_of(columns.begin(), columns.end(), [&](const Column& column) { return column.field == field; });
}

bool are_steps(const std::vector<Column>& columns) {
  return has_field(columns, Field::kStepTime) && (has_field(columns, Field::kStep) || !has_field(columns, Field::kSize));
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
      builder_.start_attempt();
      num_rows_ = 0;
      return LineUse::kOther;
    }
    const auto fields = split_csv_line(line.text);
    if (!fields || fields->size() != columns_.size()) return LineUse::kRejected;
    LogRow row{.step = num_rows_};
    LogLine stamped = line;
    stamped.time_s.reset();
    for (size_t at = 0; at < columns_.size(); ++at)
      if (!(*fields)[at].empty() && !set_field(columns_[at], (*fields)[at], row, stamped)) return LineUse::kRejected;
    ++num_rows_;
    if (!has_step_) row.num_steps = 1;
    if (const auto batch = known_batch(); batch && std::isnan(row.samples)) row.samples = static_cast<double>(*batch);
    return add(stamped, row);
  }

 private:
  void read_header(std::string_view text) {
    header_ = text;
    columns_ = columns_of(text);
    has_step_ = has_field(columns_, Field::kStep);
    if (are_steps(columns_)) return;
    throw DataError(fmt::format("record: '{}' is no table of steps with their times; its first line is '{}'", builder_.run().source.string(), text),
                    "name one step_time_s, step_time_ms, batch_time_s or iteration_time_ms; a table of points (nodes, samples_per_s) is no log of steps");
  }

  static bool set_field(const Column& column, const std::string& text, LogRow& row, LogLine& line) {
    if (column.field == Field::kNone || column.field == Field::kSize) return true;
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
    constexpr double kMaxCount = 1e14, kMaxSmall = 1e9;
    switch (column.field) {
      case Field::kStep: row.step = static_cast<int64_t>(std::min(*number, kMaxCount)); break;
      case Field::kEpoch: row.epoch = static_cast<int32_t>(std::min(*number, kMaxSmall)); break;
      case Field::kNumSteps: row.num_steps = static_cast<int32_t>(std::min(*number, kMaxSmall)); break;
      case Field::kRank: line.rank = static_cast<int>(std::min(*number, kMaxSmall)); break;
      case Field::kStepTime: row.step_ms = *number * column.unit_ms; break;
      case Field::kDataWait: row.data_wait_ms = *number * column.unit_ms; break;
      case Field::kSamples: row.samples = *number; break;
      case Field::kTokens: row.tokens = *number; break;
      case Field::kSamplesSeen: row.samples_seen = *number; break;
      case Field::kRate: row.samples_per_s = *number; break;
      case Field::kTflops: row.tflops_per_device = *number; break;
      case Field::kTime: line.time_s = *number; break;
      case Field::kSize:
      case Field::kLoss:
      case Field::kNone: break;
    }
    return true;
  }

  std::string header_{};
  std::vector<Column> columns_{};
  bool has_step_ = false;
  int64_t num_rows_ = 0;
};

}  // namespace

LogReader csv_reader() {
  return {.is_own_line = [](std::string_view line) { return line.find(',') != std::string_view::npos && are_steps(columns_of(line)); },
          .make = [](LogBuilder& builder) -> std::unique_ptr<LogParser> { return std::make_unique<CsvParser>(builder); }};
}

}  // namespace lockstep::record
