// What a summary takes from the measured attempt and from the intervals behind its warm-up.
#include "analysis/run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analysis/analyse.h"
#include "analysis/collectives.h"
#include "analysis/curve.h"
#include "core/strings.h"
#include "record/step_columns.h"
#include "unit/analysis/synthetic_runs.h"

namespace lockstep::analysis {
namespace {

using tests::make_run;

/// Of 700 steps the first 300 are of attempt 1, at 300 ms a step, and the others of attempt 2, at 100
/// ms; epochs of 100 steps.
record::RunData restarted_run() {
  record::RunData run = make_run({.name = "restarted", .num_slow = 0});
  double time_s = 1.7e9;
  for (size_t i = 0; i < run.steps.size(); ++i) {
    const bool is_first = i < 300;
    run.steps.attempt[i] = is_first ? 1 : 2;
    if (is_first) run.steps.step_ms[i] *= 3;
    time_s += run.steps.step_ms[i] / 1e3 + (i == 300 ? 3600 : 0);
    run.steps.time_s[i] = time_s;
    run.steps.epoch[i] = static_cast<int32_t>(i / 100);
    run.steps.logged_samples_per_s[i] = 32 * 1e3 / run.steps.step_ms[i];
  }
  run.num_attempts = run.measured_attempt = 2;
  return run;
}

TEST(RunSummary, ProtocolsAndEpochsAreOfTheMeasuredAttempt) {
  const RunSummary summary =
      summarise_run(restarted_run(), {.protocols = {Protocol::kLockstep, Protocol::kClap, Protocol::kNemotron,
                                                    Protocol::kEpicureVision, Protocol::kEpicureLanguage}});
  EXPECT_NEAR(summary.series->median_ms, 100, 1);
  ASSERT_EQ(summary.epochs.size(), 3u) << "4, 5 and 6; start-up lies in 3";
  for (const EpochTimes& epoch : summary.epochs) EXPECT_NEAR(epoch.train_s, 10, 0.2) << epoch.epoch;
  bool has_clap = false;
  for (const ProtocolResult& result : summary.protocols) {
    if (result.step_ms) {
      EXPECT_NEAR(*result.step_ms, 100, 2) << protocol_name(result.protocol);
    }
    if (result.protocol != Protocol::kClap) continue;
    ASSERT_TRUE(result.samples_per_s) << result.sentence;
    EXPECT_NEAR(*result.samples_per_s, 320, 4);
    has_clap = true;
  }
  EXPECT_TRUE(has_clap);
}

TEST(RunSummary, LossesAreOfAllAttemptsButThoseNotFiniteOfTheMeasuredOne) {
  record::RunData run = restarted_run();
  run.steps.loss[10] = run.steps.loss[20] = run.steps.loss[500] = std::nan("");
  const RunSummary summary = summarise_run(run, {});
  EXPECT_EQ(summary.num_nonfinite_losses, 1);
  EXPECT_EQ(summary.num_steps, 700);
  EXPECT_LE(summary.losses.front().samples_seen, 32 * 3);
  EXPECT_NEAR(summary.losses.back().samples_seen, 32 * 700, 32 * 7);
  ASSERT_EQ(summary.problems.size(), 1u);
  EXPECT_NE(summary.problems[0].find("300 rows of other attempts"), std::string::npos) << summary.problems[0];
}

TEST(RunSummary, CallsPerStepAreThoseOfTheStepsInWhichTheyWereCounted) {
  record::RunData run = restarted_run();
  run.collectives.push_back({.kind = "all_reduce",
                             .axis = "dp",
                             .group_size = 4,
                             .bytes = 1e6,
                             .count = 3 * 400,
                             .num_steps = 400,
                             .time_ms = 400});
  const Analysis analysis = analyse({summarise_run(run, {})}, {});
  const auto rows = collective_rows(analysis.curves.at(0).points.at(0), analysis.runs);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_DOUBLE_EQ(rows[0].calls_per_step, 3);
}

/// 4 devices at 250 W each: 25 J of each in a step of 100 ms. The first interval lies in the warm-up, in steps of 20 s;
/// a pause of 50 s follows step 399.
record::RunData metered_run(bool has_seconds) {
  record::RunData run = make_run({.name = "metered", .num_slow = 0});
  double time_s = 1.7e9, last_s = time_s;
  for (size_t i = 0; i < run.steps.size(); ++i) {
    if (i < 10) run.steps.step_ms[i] = 20'000;
    time_s += run.steps.step_ms[i] / 1e3 + (i == 400 ? 50 : 0);
    run.steps.time_s[i] = time_s;
    if (i % 10 != 9) continue;
    const double seconds = time_s - last_s;
    last_s = time_s;
    record::SystemInterval interval{.attempt = 1, .step = static_cast<int64_t>(i), .num_steps = 10, .host = "n1"};
    for (const char* meter : {"nvml-0", "nvml-1", "nvml-2", "nvml-3"}) interval.energy_j[meter] = 250 * seconds;
    interval.received_bytes["ib0"] = i < 10 ? 1e12 : 1e7;
    if (has_seconds) interval.seconds = seconds;
    run.system.push_back(interval);
  }
  if (has_seconds) run.steps.time_s.assign(run.steps.size(), std::nan(""));
  return run;
}

TEST(RunSummary, EnergyAndNetworkAreOfTheIntervalsBehindTheWarmUpAndPowerOfTheirWallClock) {
  for (const bool has_seconds : {true, false}) {
    const RunSummary summary = summarise_run(metered_run(has_seconds), {});
    ASSERT_TRUE(summary.energy);
    EXPECT_NEAR(summary.energy->joules / summary.energy->seconds, 1000, 0.1) << has_seconds;
    EXPECT_LT(summary.energy->samples, 32 * 691) << "the first interval is left out";
    const double num_steps = summary.energy->samples / 32;
    EXPECT_NEAR(summary.energy->joules, 1000 * (0.1 * num_steps + 50), 0.01 * summary.energy->joules) << has_seconds;
    EXPECT_DOUBLE_EQ(summary.network_per_step.at("ib0").received_bytes, 1e6);
  }
}

TEST(RunSummary, StampsThatContradictTheStepTimesAreNoClock) {
  record::RunData run = make_run({.name = "collected", .num_slow = 0});
  EXPECT_GT(summarise_run(run, {}).billed_s, 60);
  run.steps.time_s.assign(run.steps.size(), 1.7e9);
  const RunSummary summary = summarise_run(run, {});
  EXPECT_TRUE(std::isnan(summary.billed_s));
  EXPECT_NE(core::join(summary.problems, "\n").find("its times of day tell 0.1 s"), std::string::npos)
      << core::join(summary.problems, "\n");
}

TEST(RunSummary, PrintedStepsThatAreSlowerThanTheOthersAreTold) {
  record::RunData run;
  run.format = "deepspeed";
  for (int row = 0; row < 100; ++row) {  // the step behind a line takes 2 s, the nine others 1 s
    record::add_row(run.steps, 10 * row + 9);
    run.steps.num_steps.back() = 1;
    run.steps.step_ms.back() = 2000;
    run.steps.samples.back() = 8;
    run.steps.time_s.back() = 1.7e9 + 11.0 * (row + 1);
  }
  const RunSummary summary = summarise_run(run, {});
  const std::string problems = core::join(summary.problems, "\n");
  EXPECT_NE(problems.find("one step in 10"), std::string::npos) << problems;
  EXPECT_NE(problems.find("those between the lines are faster"), std::string::npos) << problems;
}

}  // namespace
}  // namespace lockstep::analysis
