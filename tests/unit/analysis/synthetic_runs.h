#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "analysis/analyse.h"
#include "analysis/curve.h"
#include "record/run_data.h"

namespace lockstep::tests {

/// A run whose truth is known: steps of `step_ms` with a small fixed ripple, slow at the start.
struct RunPlan {
  std::string name = "run";
  int64_t nodes = 1, devices_per_node = 4, samples_per_device = 8;
  double step_ms = 100, ripple = 0.01;
  size_t num_steps = 700, num_slow = 20;
  std::string job{};
  std::string model = "ViT-B-32", precision = "bf16";
};

/// Deterministic values in [-1, 1] without a period that a test could meet.
inline double ripple_at(size_t i) {
  const double x = std::fmod(0.6180339887498949 * static_cast<double>(i * i % 9973 + 7 * i), 1.0);
  return 2 * x - 1;
}

inline record::RunData make_run(const RunPlan& plan) {
  record::RunData run;
  run.name = plan.name;
  run.source = "/runs/" + plan.name;
  run.format = "lockstep";
  run.state = "finished";
  run.allocation = plan.job;
  run.command = "lockstep train clip --name " + plan.name;
  record::RunSetup& setup = run.setup;
  setup.task = "clip";
  setup.model = plan.model;
  setup.precision = plan.precision;
  setup.device = "NVIDIA GH200";
  setup.nodes = plan.nodes;
  setup.devices = plan.nodes * plan.devices_per_node;
  setup.samples_per_device = plan.samples_per_device;
  setup.global_batch = plan.samples_per_device * *setup.devices;
  setup.accum = 1;
  setup.forward_gflops_per_sample = 14.78;
  setup.flops_formula = "OpenCLIP profile";
  setup.peak_tflops_per_device = 989;
  setup.peak_source = "datasheet, dense bf16";
  setup.is_synthetic = false;
  const auto samples = static_cast<double>(*setup.global_batch);
  double time_s = 1.7e9;
  for (size_t i = 0; i < plan.num_steps; ++i) {
    const double ms = plan.step_ms * (1 + plan.ripple * ripple_at(i) + (i < plan.num_slow ? 1.0 : 0.0));
    time_s += ms / 1e3;
    run.steps.step.push_back(static_cast<int64_t>(i));
    run.steps.num_steps.push_back(1);
    run.steps.epoch.push_back(0);
    run.steps.attempt.push_back(1);
    run.steps.step_ms.push_back(ms);
    run.steps.data_wait_ms.push_back(0.1);
    run.steps.samples.push_back(samples);
    run.steps.tokens.push_back(std::nan(""));
    run.steps.loss.push_back(3.0 + 4.0 * std::exp(-static_cast<double>(i) * samples / 20000));
    run.steps.samples_seen.push_back(samples * static_cast<double>(i + 1));
    run.steps.time_s.push_back(time_s);
    run.steps.logged_samples_per_s.push_back(std::nan(""));
    run.steps.logged_tflops_per_device.push_back(std::nan(""));
  }
  return run;
}

/// The runs, summarised and analysed with one set of options.
inline analysis::Analysis analysis_of(const std::vector<record::RunData>& runs,
                                      const analysis::AnalysisOptions& options = {}) {
  std::vector<analysis::RunSummary> all;
  for (const record::RunData& run : runs) all.push_back(analysis::summarise_run(run, options));
  return analysis::analyse(std::move(all), options);
}

}  // namespace lockstep::tests
