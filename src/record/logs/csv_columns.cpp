#include "record/logs/csv_columns.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/strings.h"
#include "record/logs/line.h"
#include "record/table.h"

namespace lockstep::record {
namespace {
using Field = CsvField;

struct Alias {
  std::string_view name;
  Field field;
};
/// Names in lower case without units, with "_" for what is no letter or digit.
constexpr std::array kAliases = std::to_array<Alias>({{"step", Field::kStep},
                                                      {"iteration", Field::kStep},
                                                      {"iter", Field::kStep},
                                                      {"global_step", Field::kStep},
                                                      {"epoch", Field::kEpoch},
                                                      {"num_steps", Field::kNumSteps},
                                                      {"rank", Field::kRank},
                                                      {"step_time", Field::kStepTime},
                                                      {"step", Field::kStepTime},
                                                      {"time_per_step", Field::kStepTime},
                                                      {"iteration_time", Field::kStepTime},
                                                      {"iter_time", Field::kStepTime},
                                                      {"batch_time", Field::kStepTime},
                                                      {"elapsed_time_per_iteration", Field::kStepTime},
                                                      {"train_step_time", Field::kStepTime},
                                                      {"train_step_timing", Field::kStepTime},
                                                      {"train_step_timing_in", Field::kStepTime},
                                                      {"data_time", Field::kDataWait},
                                                      {"data_wait", Field::kDataWait},
                                                      {"data", Field::kDataWait},
                                                      {"samples", Field::kSamples},
                                                      {"images", Field::kSamples},
                                                      {"global_batch", Field::kGlobalBatch},
                                                      {"global_batch_size", Field::kGlobalBatch},
                                                      {"gbs", Field::kGlobalBatch},
                                                      {"total_batch", Field::kGlobalBatch},
                                                      {"total_batch_size", Field::kGlobalBatch},
                                                      {"tokens", Field::kTokens},
                                                      {"loss", Field::kLoss},
                                                      {"train_loss", Field::kLoss},
                                                      {"samples_seen", Field::kSamplesSeen},
                                                      {"consumed_samples", Field::kSamplesSeen},
                                                      {"samples_per_s", Field::kRate},
                                                      {"samples_per_second", Field::kRate},
                                                      {"images_per_s", Field::kRate},
                                                      {"images_per_second", Field::kRate},
                                                      {"tflops_per_device", Field::kTflops},
                                                      {"tflops_per_gpu", Field::kTflops},
                                                      {"tflops", Field::kTflops},
                                                      {"timestamp", Field::kTime},
                                                      {"time", Field::kTime},
                                                      {"unix_time", Field::kTime}});

struct FactAlias {
  std::string_view name, fact;
};
/// Columns that are the same for a whole run. A "batch" that may be of a device or of all is not among them.
constexpr std::array kFacts = std::to_array<FactAlias>({{"nodes", "nodes"},
                                                        {"n_nodes", "nodes"},
                                                        {"num_nodes", "nodes"},
                                                        {"nnodes", "nodes"},
                                                        {"node_count", "nodes"},
                                                        {"number_of_nodes", "nodes"},
                                                        {"devices", "devices"},
                                                        {"n_devices", "devices"},
                                                        {"num_devices", "devices"},
                                                        {"device_count", "devices"},
                                                        {"gpus", "devices"},
                                                        {"n_gpus", "devices"},
                                                        {"num_gpus", "devices"},
                                                        {"ngpus", "devices"},
                                                        {"gpu_count", "devices"},
                                                        {"number_of_gpus", "devices"},
                                                        {"ranks", "devices"},
                                                        {"n_ranks", "devices"},
                                                        {"num_ranks", "devices"},
                                                        {"world_size", "devices"},
                                                        {"accelerators", "devices"},
                                                        {"gcds", "devices"},
                                                        {"devices_per_node", "devices_per_node"},
                                                        {"gpus_per_node", "devices_per_node"},
                                                        {"ranks_per_node", "devices_per_node"},
                                                        {"local_batch", "samples_per_device"},
                                                        {"local_batch_size", "samples_per_device"},
                                                        {"batch_per_gpu", "samples_per_device"},
                                                        {"batch_per_device", "samples_per_device"},
                                                        {"batch_size_per_gpu", "samples_per_device"},
                                                        {"batch_size_per_device", "samples_per_device"},
                                                        {"per_gpu_batch_size", "samples_per_device"},
                                                        {"per_device_batch_size", "samples_per_device"},
                                                        {"samples_per_device", "samples_per_device"},
                                                        {"accum", "accum"},
                                                        {"grad_accum", "accum"},
                                                        {"gradient_accumulation_steps", "accum"},
                                                        {"sequence_length", "sequence_length"},
                                                        {"seq_length", "sequence_length"},
                                                        {"seq_len", "sequence_length"},
                                                        {"model", "model"},
                                                        {"model_name", "model"},
                                                        {"precision", "precision"},
                                                        {"dtype", "precision"},
                                                        {"task", "task"},
                                                        {"system", "system"},
                                                        {"cluster", "system"},
                                                        {"layout", "layout"},
                                                        {"run", "run"},
                                                        {"run_id", "run"},
                                                        {"run_name", "run"},
                                                        {"repeat", "run"},
                                                        {"repetition", "run"},
                                                        {"rep", "run"},
                                                        {"replicate", "run"},
                                                        {"trial", "run"},
                                                        {"seed", "run"},
                                                        {"job", "job"},
                                                        {"job_id", "job"},
                                                        {"jobid", "job"},
                                                        {"slurm_job_id", "job"}});

/// "Step time (ms)" -> step time in ms. "step_ms" is a time, "step" a number.
CsvColumn column_of(std::string_view header) {
  const std::string name = plain_name(header);
  if (const auto unit = find_time_unit(name)) {
    const double ms = std::pow(10, 3 - unit->decimals);
    for (const Alias& alias : kAliases)
      if (alias.name == unit->stem && is_csv_duration(alias.field))
        return {.field = alias.field, .unit_ms = ms, .is_unit_told = true, .name = std::string(header)};
    if (unit->stem == "time")
      return {.field = Field::kStepTime,
              .unit_ms = ms,
              .is_unit_told = true,
              .name = std::string(header),
              .may_be_elapsed = true};
  }
  for (const Alias& alias : kAliases)
    if (alias.name == name) return {.field = alias.field, .name = std::string(header)};
  for (const FactAlias& alias : kFacts)
    if (alias.name == name) return {.field = Field::kFact, .name = std::string(header), .fact = alias.fact};
  return {.name = std::string(header)};
}

bool is_size(const CsvColumn& column) { return column.fact == "nodes" || column.fact == "devices"; }

}  // namespace

std::vector<CsvColumn> csv_columns_of(std::string_view header) {
  std::vector<CsvColumn> columns;
  if (const auto names = split_csv_line(header, separator_of(header)))
    for (const std::string& name : *names) columns.push_back(column_of(name));
  return columns;
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
  static constexpr std::array<std::string_view, 6> kCounts = {
      "nodes", "devices", "devices_per_node", "samples_per_device", "accum", "sequence_length"};
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

}  // namespace lockstep::record
