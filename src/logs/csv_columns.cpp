#include "logs/csv_columns.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "core/csv_table.h"
#include "core/strings.h"
#include "logs/column_names.h"
#include "logs/line.h"

namespace lockstep::logs {
namespace {
using Field = CsvField;

/// Quantities of a step; what else is known of a column is a fact of its run.
constexpr std::array kFields = std::to_array<std::pair<std::string_view, Field>>({{"step", Field::kStep},
                                                                                  {"epoch", Field::kEpoch},
                                                                                  {"num_steps", Field::kNumSteps},
                                                                                  {"rank", Field::kRank},
                                                                                  {"step_time", Field::kStepTime},
                                                                                  {"data_wait", Field::kDataWait},
                                                                                  {"samples", Field::kSamples},
                                                                                  {"global_batch", Field::kGlobalBatch},
                                                                                  {"tokens", Field::kTokens},
                                                                                  {"loss", Field::kLoss},
                                                                                  {"samples_seen", Field::kSamplesSeen},
                                                                                  {"samples_per_s", Field::kRate},
                                                                                  {"tflops_per_gpu", Field::kTflops},
                                                                                  {"timestamp", Field::kTime}});

Field field_of(std::string_view quantity) {
  if (quantity.empty()) return Field::kNone;
  for (const auto& [name, field] : kFields)
    if (name == quantity) return field;
  return Field::kFact;
}

/// The name of a fact as record/meta.h has it.
std::string_view fact_of(std::string_view quantity) {
  return quantity == "gpus" ? "devices" : quantity == "local_batch" ? "samples_per_device" : quantity;
}

/// A header as W&B writes it: the run before a metric.
struct RunMetric {
  std::string_view run{}, metric{};
};

/// "run1 - loss" -> run1, loss. The least and largest values that W&B puts beside it are no columns of their own.
RunMetric run_metric_of(std::string_view header) {
  constexpr std::string_view kAfterRun = " - ";
  for (const std::string_view extreme : {"__MIN", "__MAX"})
    if (core::ends_with(header, extreme)) return {};
  const size_t at = header.rfind(kAfterRun);
  if (at == std::string_view::npos) return {.metric = header};
  return {.run = header.substr(0, at), .metric = header.substr(at + kAfterRun.size())};
}

/// "perf/step_time" -> "step_time": metrics of training in a group. A group of another name ("val") tells of something
/// else.
std::string_view without_group(std::string_view metric) {
  for (const std::string_view group : {"train/", "perf/", "performance/", "timing/", "time/", "throughput/"})
    if (core::starts_with(metric, group)) return metric.substr(group.size());
  return metric;
}

/// "Step time (ms)" -> step time in ms. "step_ms" is a time, "step" a number.
CsvColumn column_of(std::string_view header) {
  const RunMetric parts = run_metric_of(header);
  const std::string name = core::plain_name(without_group(parts.metric));
  CsvColumn column{.name = std::string(header), .run = std::string(parts.run)};
  if (const auto unit = core::find_time_unit(name)) {
    const std::string_view duration = find_duration(unit->stem, ColumnUse::kSteps);
    column.may_be_elapsed = unit->stem == "time";
    if (!duration.empty() || column.may_be_elapsed) {
      column.field = column.may_be_elapsed ? Field::kStepTime : field_of(duration);
      column.unit_ms = std::pow(10, 3 - unit->decimals);
      column.is_unit_given = true;
      return column;
    }
  }
  std::string_view quantity = find_quantity(name, ColumnUse::kSteps);
  if (quantity.empty()) quantity = find_duration(name, ColumnUse::kSteps);
  column.field = field_of(quantity);
  if (column.field == Field::kFact) column.fact = fact_of(quantity);
  return column;
}

bool is_size(const CsvColumn& column) { return column.fact == "nodes" || column.fact == "devices"; }

}  // namespace

std::vector<CsvColumn> csv_columns_of(std::string_view header) {
  std::vector<CsvColumn> columns;
  if (const auto names = core::split_csv_line(header, core::separator_of(header)))
    for (const std::string& name : *names) columns.push_back(column_of(name));
  return columns;
}

std::vector<std::string> runs_side_by_side(const std::vector<CsvColumn>& columns) {
  std::vector<std::string> runs;
  std::set<std::string_view> known;
  std::map<std::pair<CsvField, std::string_view>, std::string_view> run_of;  // whose quantity came first
  bool are_several = false;
  for (const CsvColumn& column : columns) {
    if (column.run.empty() || column.field == Field::kNone) continue;
    if (known.insert(column.run).second) runs.push_back(column.run);
    const auto [first, is_first] = run_of.try_emplace({column.field, column.fact}, column.run);
    are_several = are_several || (!is_first && first->second != column.run);
  }
  return are_several ? runs : std::vector<std::string>();
}

bool has_csv_field(const std::vector<CsvColumn>& columns, CsvField field) {
  return std::any_of(columns.begin(), columns.end(), [&](const CsvColumn& column) { return column.field == field; });
}

bool are_csv_steps(const std::vector<CsvColumn>& columns) {
  return has_csv_field(columns, Field::kStepTime) &&
         (has_csv_field(columns, Field::kStep) || std::none_of(columns.begin(), columns.end(), is_size));
}

bool is_csv_count(CsvField field) {
  return field == Field::kStep || field == Field::kEpoch || field == Field::kNumSteps || field == Field::kSamples ||
         field == Field::kGlobalBatch || field == Field::kTokens || field == Field::kSamplesSeen;
}

bool is_csv_duration(CsvField field) { return field == Field::kStepTime || field == Field::kDataWait; }

bool is_count_fact(std::string_view fact) {
  static constexpr std::array<std::string_view, 7> kCounts = {
      "nodes", "devices", "devices_per_node", "samples_per_device", "micro_batch", "accum", "sequence_length"};
  return std::find(kCounts.begin(), kCounts.end(), fact) != kCounts.end();
}

std::optional<CsvTime> read_csv_time(const std::string& cell) {
  std::string_view rest;
  const auto number = read_number(cell, &rest);
  rest = core::trim(rest);
  if (!number || *number < 0) return std::nullopt;
  if (rest.empty()) return CsvTime{*number};
  for (const auto& [unit, ms] :
       {std::pair{"ms", 1.0}, {"us", 1e-3}, {"s", 1000.0}, {"sec", 1000.0}, {"seconds", 1000.0}})
    if (rest == unit) return CsvTime{*number, ms};
  return std::nullopt;
}

}  // namespace lockstep::logs
