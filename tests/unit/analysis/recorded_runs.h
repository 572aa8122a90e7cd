#pragma once
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "record/run_record.h"
#include "record/run_setup.h"
#include "unit/analysis/synthetic_runs.h"

namespace lockstep::tests {

/// A run that is written to disk as a training run writes it, with every file of a record filled.
struct RecordPlan {
  int64_t nodes = 1, ranks_per_node = 2, micro_batch_size = 16;
  double step_ms = 100;
  int64_t num_steps = 600, steps_per_epoch = 150;
  double peak_host_bytes = 3e9, peak_device_bytes = 8e9;
  bool has_resources = true;  ///< Memory, network and energy.
};

inline record::StepRecord recorded_step(const RecordPlan& plan, int64_t step, double time_s) {
  const int64_t batch = plan.micro_batch_size * plan.ranks_per_node * plan.nodes;
  const double ms = plan.step_ms * (1 + 0.01 * ripple_at(static_cast<size_t>(step))),
               seen = static_cast<double>(batch * (step + 1));
  record::StepRecord record{.step = step,
                            .epoch = step / plan.steps_per_epoch,
                            .samples = batch,
                            .samples_seen = batch * (step + 1),
                            .tokens = 1024 * batch,
                            .step_ms = ms};
  record.data_wait_ms = 0.02 * ms;
  record.exposed_comm_ms = 0.1 * ms;
  record.samples_per_s = 1e3 * static_cast<double>(batch) / ms;
  record.loss = 2 + 5 * std::exp(-seen / 5e3) + 0.05 * ripple_at(static_cast<size_t>(step) + 31);
  record.lr = 1e-3;
  record.phases_ms = {{"data_wait", 0.02 * ms},   {"forward", 0.3 * ms},    {"backward", 0.5 * ms},
                      {"exposed_comm", 0.1 * ms}, {"optimizer", 0.05 * ms}, {"telemetry", 0.001 * ms},
                      {"other", 0.029 * ms}};
  record.time_s = time_s;
  if (!plan.has_resources) return record;
  const double share = static_cast<double>(step + 1) / static_cast<double>(plan.num_steps);  // peaks so far
  record.host_memory_bytes = static_cast<int64_t>(plan.peak_host_bytes * share);
  record.device_memory_bytes = static_cast<int64_t>(plan.peak_device_bytes * share);
  return record;
}

/// Times of all ranks, the last of them working a fifth longer than the others, and the counters of every host: 10 MB
/// received and 20 MB sent over ib0 in a step, nothing over eth0, 2 meters of 100 W.
inline void record_interval(const RecordPlan& plan, int64_t step, record::RunRecord& record) {
  record::RankTimesRecord times{.step = step, .num_steps = 10};
  for (int64_t rank = 0; rank < plan.ranks_per_node * plan.nodes; ++rank) {
    const double work = rank + 1 == plan.ranks_per_node * plan.nodes ? 0.96 : 0.8;
    times.step_ms.push_back(plan.step_ms);
    times.data_wait_ms.push_back(0.02 * plan.step_ms);
    times.compute_ms.push_back((work - 0.02) * plan.step_ms);
    times.comm_wait_ms.push_back((0.98 - work) * plan.step_ms);
    times.hosts.push_back(fmt::format("host-{}", rank / plan.ranks_per_node));
  }
  record.append_rank_times(times);
  record.append_comm({.step = step,
                      .kind = "all_reduce",
                      .axis = "dp",
                      .group_size = static_cast<int>(times.step_ms.size()),
                      .bytes = 1'000'000,
                      .count = 3 * (step + 1),
                      .time_ms = 30.0 * static_cast<double>(step + 1),
                      .blocked_ms = 10.0 * static_cast<double>(step + 1)});
  if (!plan.has_resources) return;
  for (int64_t node = 0; node < plan.nodes; ++node)
    record.append_system({.step = step,
                          .num_steps = 10,
                          .host = fmt::format("host-{}", node),
                          .received_bytes = {{"ib0", 1e8}, {"eth0", 0}},
                          .sent_bytes = {{"ib0", 2e8}, {"eth0", 0}},
                          .energy_j = {{"nvml-0", 0.1 * plan.step_ms * 10}, {"nvml-1", 0.1 * plan.step_ms * 10}},
                          .seconds = plan.step_ms / 100});
}

/// Writes one more attempt into `folder`.
inline void write_record(const std::filesystem::path& folder, const RecordPlan& plan) {
  record::RunSetup setup{.task = "gpt", .model = "gpt-small", .precision = "bf16", .device = "NVIDIA GH200"};
  setup.nodes = plan.nodes, setup.devices = plan.ranks_per_node * plan.nodes,
  setup.samples_per_device = plan.micro_batch_size, setup.accum = 1;
  setup.global_batch = plan.micro_batch_size * *setup.devices, setup.sequence_length = 1024,
  setup.sample_unit = "sequences";
  setup.forward_gflops_per_sample = 300, setup.flops_formula = "matrix products", setup.peak_tflops_per_device = 989,
  setup.peak_source = "datasheet, dense bf16";
  setup.is_synthetic = false;
  record::RunRecord record(folder, core::Json{{"setup", record::to_json(setup)},
                                              {"command", "lockstep train gpt"},
                                              {"slurm_job_id", fmt::format("{}", 4711 + plan.nodes)}});
  record.append_startup({.phases_ms = {{"start", 800}, {"rendezvous", 200}, {"first_step", 500}}});
  double time_s = 1.7e9;
  for (int64_t step = 0; step < plan.num_steps; ++step) {
    record::StepRecord line = recorded_step(plan, step, 0);
    time_s += line.step_ms / 1e3;
    line.time_s = time_s;
    record.append_step(std::move(line));
    if (step % 10 == 9) record_interval(plan, step, record);
  }
  record.append_result(
      {.step = plan.num_steps, .epoch = 4, .name = "val", .metrics = {{"val_loss", 2.1}}, .seconds = 3});
  record.finish({});
}

}  // namespace lockstep::tests
