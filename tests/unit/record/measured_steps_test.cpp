#include "record/measured_steps.h"

#include <gtest/gtest.h>

namespace lockstep::record {
namespace {

/// Logs that print a mean over 100 steps, but the first step of each epoch by itself, which is slow.
RunData epochs_of_intervals(int num_epochs) {
  RunData run;
  for (int epoch = 0; epoch < num_epochs; ++epoch)
    for (int row = 0; row < 5; ++row) {
      run.steps.step.push_back(static_cast<int64_t>(run.steps.step.size()));
      run.steps.num_steps.push_back(row == 0 ? 1 : 100);
      run.steps.step_ms.push_back(row == 0 ? 2100 : 400);
    }
  return run;
}

TEST(MeasuredSteps, TheFirstLineOfAnEpochWeighsAsTheOneStepItIs) {
  const MeasuredSteps steps = measure_steps(epochs_of_intervals(10), /*warmup_steps=*/0);
  ASSERT_TRUE(steps.series);
  EXPECT_EQ(steps.rows.step_ms.size(), 40u);
  EXPECT_NEAR(steps.series->median_ms, 400, 5);
  EXPECT_NEAR(steps.series->mean_ms, (2100.0 + 400 * 400) / 401, 0.2);  // of the steps of an epoch
  EXPECT_LT(steps.series->p95_ms, 420);
}

TEST(MeasuredSteps, ShortRowsAtTheEndJoinTheRowBefore) {
  RunData run = epochs_of_intervals(1);
  run.steps.step.push_back(5);
  run.steps.num_steps.push_back(2);
  run.steps.step_ms.push_back(1000);
  const MeasuredSteps steps = measure_steps(run, 0);
  ASSERT_EQ(steps.rows.step_ms.size(), 4u);
  EXPECT_NEAR(steps.rows.step_ms.back(), (400.0 * 100 + 2 * 1000) / 102, 1e-9);
  EXPECT_EQ(steps.rows.index.back(), 5u);
}

TEST(MeasuredSteps, RowsOfSingleStepsStayAsTheyAre) {
  RunData run;
  for (int row = 0; row < 30; ++row) {
    run.steps.step.push_back(row);
    run.steps.step_ms.push_back(100 + row % 3);
  }
  EXPECT_EQ(measure_steps(run, 0).rows.step_ms, run.steps.step_ms);
}

TEST(MeasuredSteps, ARowStandsForTheStepsSinceTheRowBefore) {
  RunData run;
  for (int row = 0; row < 40; ++row) {
    run.steps.step.push_back(10 * row + 9);
    run.steps.num_steps.push_back(1);
    run.steps.attempt.push_back(row < 5 ? 1 : 2);
    run.steps.step_ms.push_back(row == 20 ? 0 : 1000);
  }
  EXPECT_EQ(steps_since_row_before(run.steps, 0), 1);
  EXPECT_EQ(steps_since_row_before(run.steps, 4), 10);
  EXPECT_EQ(steps_since_row_before(run.steps, 5), 1) << "another attempt";
  const MeasuredSteps steps = measure_steps(run);
  EXPECT_EQ(steps.rows.steps_per_row, 1);
  EXPECT_EQ(steps.rows.covered_per_row, 10);
  EXPECT_EQ(steps.rows.covered_steps[15], 20) << "the row before has no usable time";
  EXPECT_EQ(steps.options.min_warmup_steps, 1u) << "10 steps";
  EXPECT_NEAR(steps.options.min_warmup_s, 3.0, 0.2) << "30 s: a row is one second of ten";
}

}  // namespace
}  // namespace lockstep::record
