#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "analysis/analyse.h"
#include "core/files.h"
#include "logs/logs.h"
#include "unit/analysis/synthetic_runs.h"

namespace lockstep::analysis::intervals {

inline constexpr double kStepS = 2, kEvaluationS = 10, kWeakEfficiency = 0.9, kSamples = 1e9;
inline constexpr int64_t kDevicesPerNode = 4, kSamplesPerNode = 4096, kSequence = 128;

/// Steps that take longer: those whose number leaves `at` when divided by `every` (0: none).
struct SlowSteps {
  int64_t every = 0, at = 0;
  double seconds = 0;
};

/// A run whose truth is known. Steps count from 1; an evaluation follows every
/// `steps_per_evaluation` of them (0: none).
struct Timeline {
  int64_t nodes = 1, steps_per_line = 1, steps_per_evaluation = 0;
  SlowSteps slow{};
  double ripple = 0.005;  ///< Of the step times.
  double evaluation_s = kEvaluationS;
  int64_t num_steps = 0;
  int64_t steps_before = 0;      ///< Of the run that this one goes on with.
  std::vector<double> end_s{0};  ///< By step; [0] is the start.

  Timeline(int64_t num_nodes, int64_t line, int64_t evaluation, const SlowSteps& slow_steps = {},
           double step_ripple = 0.005, double seconds_of_evaluation = kEvaluationS)
      : nodes(num_nodes), steps_per_line(line), steps_per_evaluation(evaluation), slow(slow_steps), ripple(step_ripple),
        evaluation_s(seconds_of_evaluation), num_steps((line < 100 ? 3000 : 12000) + line) {
    for (int64_t step = 1; step <= num_steps; ++step) end_s.push_back(begin_s(step) + step_s(step));
  }
  double step_s(int64_t step) const {
    const double slow_s = slow.every > 0 && step % slow.every == slow.at ? slow.seconds : 0;
    return slow_s +
           kStepS / (nodes > 1 ? kWeakEfficiency : 1) * (1 + ripple * tests::ripple_at(static_cast<size_t>(step)));
  }
  bool is_evaluated_after(int64_t step) const {
    return steps_per_evaluation > 0 && step > 0 && step % steps_per_evaluation == 0;
  }
  double begin_s(int64_t step) const {
    return end_s[static_cast<size_t>(step - 1)] + (is_evaluated_after(step - 1) ? evaluation_s : 0);
  }
  /// Mean of the steps after `from`, up to `to`, without what lay between them.
  double mean_s(int64_t from, int64_t to) const {
    double sum = 0;
    for (int64_t step = from + 1; step <= to; ++step) sum += step_s(step);
    return sum / static_cast<double>(to - from);
  }
  int64_t global_batch() const { return nodes * kSamplesPerNode; }
  int64_t devices() const { return nodes * kDevicesPerNode; }
  /// Evaluations over the time of the steps.
  double pause_share() const {
    if (steps_per_evaluation == 0) return 0;
    return evaluation_s / static_cast<double>(steps_per_evaluation) / mean_s(0, num_steps);
  }
  double node_hours(double samples) const {
    return static_cast<double>(nodes) * samples / static_cast<double>(global_batch()) * mean_s(0, num_steps) *
           (1 + pause_share()) / 3600;
  }
  /// Steps whose line is printed, every k-th.
  std::vector<int64_t> lines() const {
    std::vector<int64_t> steps;
    for (int64_t step = steps_per_line; step <= num_steps; step += steps_per_line) steps.push_back(step);
    return steps;
  }
};

/// "2026-01-31 12:00:00,250" of a time of the run.
inline std::string stamp(double seconds, std::string_view between = " ", bool has_fraction = true) {
  const int64_t ms = std::llround(seconds * 1000) % 1000, whole = (std::llround(seconds * 1000) - ms) / 1000;
  const int64_t in_day = whole % 86400, day = whole / 86400;
  return fmt::format("2026-01-{:02}{}{:02}:{:02}:{:02}{}", 1 + day, between, in_day / 3600, in_day / 60 % 60,
                     in_day % 60, has_fraction ? fmt::format(",{:03}", ms) : "");
}
inline std::string stamp_after(const Timeline& run, int64_t step) {
  return stamp(run.end_s[static_cast<size_t>(step)]);
}

/// Calls line(from, to) for the lines that a mean since the line before stands in.
template <typename Line> std::string means(const std::vector<int64_t>& steps, const Line& line) {
  std::string text;
  int64_t before = 0;
  for (const int64_t step : steps) text += line(std::exchange(before, step), step);
  return text;
}

/// A program as its log is written. Its name is the format's, or begins with it and '_'.
struct Program {
  const char* name = "";
  logs::LogFormat format = logs::LogFormat::kCsv;
  std::string (*log)(const Timeline& run) = nullptr;
  /// What it prints before, with the number of devices; null: nothing that the log does not begin with.
  std::string (*start)(const Timeline& run) = nullptr;
  bool has_epochs = false;  ///< An evaluation ends one, and the first step of the next waits for the loader.
};
inline void PrintTo(const Program& program, std::ostream* out) { *out << program.name; }

/// What is generated and read back; log_intervals_test.cpp has its cases. A new format instantiates it in a file of its
/// own: INSTANTIATE_TEST_SUITE_P(Name, EveryReader, testing::Values(Program{...}), program_name);
class EveryReader : public testing::TestWithParam<Program> {
 protected:
  RunSummary read(const Timeline& run) const {
    const std::filesystem::path path = folder_.path() / fmt::format("n{}.log", run.nodes);
    std::ofstream(path, std::ios::binary) << GetParam().log(run);
    EXPECT_EQ(logs::guess_format(path), GetParam().format);
    const auto text = [](int64_t count) { return std::to_string(count); };
    std::vector<record::RunData> runs =
        logs::read_log(path, std::nullopt,
                       {.meta = {.values = {{"nodes", text(run.nodes)},
                                            {"devices", text(run.devices())},
                                            {"global_batch", text(run.global_batch())}}}});
    EXPECT_EQ(runs.size(), 1u);
    EXPECT_EQ(runs.front().num_rejected_lines, 0);
    return summarise_run(std::move(runs.front()), {});
  }
  core::TempDir folder_{};
};

inline std::string program_name(const testing::TestParamInfo<Program>& program) { return program.param.name; }

}  // namespace lockstep::analysis::intervals
