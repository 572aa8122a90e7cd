#include "stats/series.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "core/error.h"
#include "core/rng.h"
#include "stats/autocorrelation.h"
#include "stats/series_interval.h"
#include "stats/series_warmup.h"
#include "stats/statistics.h"
#include "unit/stats/synthetic_series.h"

namespace lockstep::stats {
namespace {

using Tail = SyntheticSeries::Tail;
constexpr uint64_t kTraces = 1500, kShiftTraces = 1000;

bool covers(const std::optional<Interval>& interval, double truth) {
  return interval && interval->low <= truth && truth <= interval->high;
}
bool has_note(const std::vector<std::string>& notes, const std::string& part) {
  return std::any_of(notes.begin(), notes.end(),
                     [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

/// Steady series, ten steps of floor in front. With 4,000 traces of each: 0.947 to 0.961. Not in the list because it
/// cannot be reached: 100 steps of slow noise (rho 0.9) under as much fast noise, where the slow part does not show;
/// 0.92.
const std::vector<SyntheticSeries>& steady_series() {
  static const std::vector<SyntheticSeries> series{
      {.name = "independent", .num_steps = 110},
      {.name = "rho 0.3", .num_steps = 110, .rho = 0.3},
      {.name = "rho 0.5", .num_steps = 110, .rho = 0.5},
      {.name = "rho 0.8", .num_steps = 110, .rho = 0.8},
      {.name = "rho 0.8, 400 steps", .num_steps = 410, .rho = 0.8},
      {.name = "slow and fast noise", .num_steps = 310, .rho = 0.9, .white_share = 0.5},
      {.name = "lognormal", .num_steps = 110, .tail = Tail::kLognormal},
      {.name = "lognormal rho 0.8", .num_steps = 110, .rho = 0.8, .tail = Tail::kLognormal},
      {.name = "Pareto", .num_steps = 110, .tail = Tail::kPareto},
      {.name = "Pareto rho 0.5, 300 steps", .num_steps = 310, .rho = 0.5, .tail = Tail::kPareto},
      {.name = "Pareto rho 0.8", .num_steps = 110, .rho = 0.8, .tail = Tail::kPareto},
      {.name = "spikes each 50", .num_steps = 210, .spike_every = 50},
      {.name = "spikes each 50, rho 0.5", .num_steps = 210, .rho = 0.5, .spike_every = 50},
      {.name = "spikes each 50, rho 0.8", .num_steps = 210, .rho = 0.8, .spike_every = 50},
  };
  return series;
}

const std::vector<SyntheticSeries>& warming_series() {
  static const std::vector<SyntheticSeries> series{
      {.name = "ramp", .num_steps = 150, .warmup_excess = 2, .warmup_steps = 30},
      {.name = "ramp, rho 0.5", .num_steps = 150, .rho = 0.5, .warmup_excess = 2, .warmup_steps = 30},
      {.name = "ramp, rho 0.8", .num_steps = 150, .rho = 0.8, .warmup_excess = 2, .warmup_steps = 30},
      {.name = "late ramp, rho 0.8", .num_steps = 400, .rho = 0.8, .warmup_excess = 0.5, .warmup_steps = 100},
      {.name = "decay", .num_steps = 150, .warmup_excess = 5, .decay_steps = 3},
      {.name = "decay, rho 0.5", .num_steps = 150, .rho = 0.5, .warmup_excess = 5, .decay_steps = 3},
      {.name = "decay, rho 0.8", .num_steps = 400, .rho = 0.8, .warmup_excess = 5, .decay_steps = 3},
      {.name = "ramp, Pareto", .num_steps = 200, .tail = Tail::kPareto, .warmup_excess = 2, .warmup_steps = 30},
  };
  return series;
}

/// What the traces of one series came to.
struct Tally {
  size_t num_intervals = 0, num_median_covered = 0, num_mean_covered = 0, num_warmup_near = 0, num_changes = 0,
         num_unsteady = 0, num_paced = 0;
};

Tally tally_of(const SyntheticSeries& series) {
  Tally tally;
  for (uint64_t trace = 0; trace < kTraces; ++trace) {
    const SeriesSummary summary = summarise_series(series.make(trace));
    tally.num_intervals += summary.median_interval.has_value();
    tally.num_median_covered += covers(summary.median_interval, series.true_median());
    tally.num_mean_covered += covers(summary.mean_interval, series.true_mean());
    tally.num_warmup_near +=
        std::fabs(static_cast<double>(summary.num_warmup_steps) - static_cast<double>(series.warmup_end())) <= 5;
    tally.num_changes += summary.drift_per_1000_steps || !summary.level_shifts.empty();
    tally.num_unsteady += !summary.is_steady;
    tally.num_paced += summary.is_dispatch_limited;
  }
  return tally;
}

void expect_calibrated(const SyntheticSeries& series, const Tally& tally) {
  const double share = static_cast<double>(tally.num_median_covered) / static_cast<double>(tally.num_intervals);
  EXPECT_GE(share, 0.93) << series.name;
  EXPECT_LE(share, 0.97) << series.name;
  EXPECT_GE(tally.num_intervals, kTraces * 95 / 100) << series.name;
  if (series.tail != Tail::kNormal || series.spike_every > 0) return;
  EXPECT_NEAR(static_cast<double>(tally.num_mean_covered) / static_cast<double>(tally.num_intervals), 0.95, 0.02)
      << series.name;
}

/// Intervals of the median cover the truth in 93 to 97 %, of the mean too where the tail is light; drift, shifts or
/// quarters that differ are found in at most 4 % of series that have none, launch pacing in at most 1 %.
TEST(Series, IntervalsCoverTheTruthAndFalseAlarmsAreRare) {
  for (const SyntheticSeries& series : steady_series()) {
    const Tally tally = tally_of(series);
    expect_calibrated(series, tally);
    EXPECT_LE(tally.num_changes, kTraces * 4 / 100) << series.name;
    EXPECT_LE(tally.num_unsteady, kTraces * 4 / 100) << series.name;
    EXPECT_LE(tally.num_paced, kTraces / 100) << series.name;
  }
}

/// Of 2,000 steps and more, since the 99 % quantile of dependent steps has no interval of fewer.
TEST(Series, IntervalsOfHighQuantilesCoverTheTruthOfDependentSteps) {
  constexpr size_t kQuantileTraces = 200;
  for (const SyntheticSeries& series : {SyntheticSeries{.name = "independent", .num_steps = 1000},
                                        SyntheticSeries{.name = "rho 0.5", .num_steps = 2000, .rho = 0.5},
                                        SyntheticSeries{.name = "rho 0.8", .num_steps = 4000, .rho = 0.8},
                                        SyntheticSeries{.name = "Pareto", .num_steps = 2000, .tail = Tail::kPareto}}) {
    size_t num_p90 = 0, num_p99 = 0, num_p99_intervals = 0;
    for (uint64_t trace = 0; trace < kQuantileTraces; ++trace) {
      const SeriesSummary summary = summarise_series(series.make(trace), {.min_warmup_steps = 0, .warmup_steps = 0});
      const auto quantile = [&](double p) {
        return 100 * (1 + series.sigma * series.quantile_of_noise(normal_quantile(p)));
      };
      num_p90 += covers(summary.p90_interval, quantile(0.9));
      num_p99 += covers(summary.p99_interval, quantile(0.99));
      num_p99_intervals += summary.p99_interval.has_value();
    }
    EXPECT_GE(num_p90, kQuantileTraces * 93 / 100) << series.name;
    EXPECT_GE(num_p99, num_p99_intervals * 93 / 100) << series.name;
    EXPECT_GE(num_p99_intervals, kQuantileTraces * 80 / 100) << series.name;
  }
}

TEST(Series, AHighQuantileHasAnIntervalFromEnoughIndependentValuesOn) {
  std::vector<double> sorted(368);
  for (size_t i = 0; i < sorted.size(); ++i) sorted[i] = static_cast<double>(i + 1);
  const auto interval = [&](size_t count, double percent, double time = 1, double dof = 1e9) {
    return quantile_interval(std::span(sorted).first(count), percent,
                             {.num_values = count, .time_mean = time, .time_median = time, .dof = dof});
  };
  // 0.99^367 = 0.02501, 0.99^368 = 0.02476: the largest of 368 lies above the quantile in all but 2.5 % of cases.
  EXPECT_FALSE(interval(367, 99));
  ASSERT_TRUE(interval(368, 99));
  EXPECT_EQ(interval(368, 99)->high, 368);
  EXPECT_FALSE(interval(368, 99, /*time=*/1, /*dof=*/10)) << "the dependence is hardly known";
  EXPECT_FALSE(interval(368, 99, /*time=*/4.3)) << "no more than 85 independent ones";
  // Of a binomial law with 100 and 0.9, P(K < 84) = 0.0206 and P(K >= 96) = 0.0237; one further in is above 0.025.
  EXPECT_EQ(interval(100, 90)->low, 84);
  EXPECT_EQ(interval(100, 90)->high, 96);
  EXPECT_LT(interval(368, 90, /*time=*/4)->low, interval(368, 90)->low);
  EXPECT_GT(interval(368, 90, /*time=*/4)->high, interval(368, 90)->high);
  EXPECT_FALSE(interval(35, 90)) << "0.9^35 = 0.0250";
}

TEST(Series, WarmUpEndsWithinFiveStepsOfTheTruthAndTheRestIsCovered) {
  for (const SyntheticSeries& series : warming_series()) {
    const Tally tally = tally_of(series);
    EXPECT_GE(tally.num_warmup_near, kTraces * 95 / 100) << series.name;
    expect_calibrated(series, tally);
  }
}

TEST(Series, AHeavyTailIsToldBesideTheMean) {
  const SyntheticSeries heavy{.name = "heavy", .num_steps = 200, .tail = Tail::kPareto};
  EXPECT_TRUE(has_note(summarise_series(heavy.make(1)).notes, "tail of the step times is too heavy"));
}

TEST(Series, EstimatorsAreWithinHalfAPercent) {
  const std::vector<SyntheticSeries> list{
      {.name = "independent", .num_steps = 110},
      {.name = "warm-up, rho 0.5", .num_steps = 250, .rho = 0.5, .warmup_excess = 3, .warmup_steps = 40},
      {.name = "warm-up, spikes, rho 0.5",
       .num_steps = 250,
       .rho = 0.5,
       .warmup_excess = 3,
       .warmup_steps = 40,
       .spike_every = 40},
      {.name = "Pareto rho 0.8", .num_steps = 210, .rho = 0.8, .tail = Tail::kPareto},
      {.name = "rho 0.8", .num_steps = 610, .rho = 0.8},
  };
  for (const SyntheticSeries& series : list) {
    size_t num_near = 0;
    for (uint64_t trace = 0; trace < 300; ++trace)
      num_near += std::fabs(summarise_series(series.make(trace)).median_ms / series.true_median() - 1) <= 0.005;
    EXPECT_GE(num_near, 300u * 99 / 100) << series.name;
  }
}

TEST(Series, ShiftsAreFoundAndEachLevelHasItsInterval) {
  for (const double rho : {0.0, 0.5, 0.8}) {
    const SyntheticSeries series{.name = "shift", .num_steps = 400, .rho = rho, .shift_step = 240, .shift = 0.08};
    size_t num_unsteady = 0, num_found = 0, num_near = 0, num_low = 0, num_high = 0;
    for (uint64_t trace = 0; trace < kShiftTraces; ++trace) {
      const SeriesSummary summary = summarise_series(series.make(trace));
      num_unsteady += !summary.is_steady;
      if (summary.levels.size() != 2) continue;
      ++num_found;
      num_near += std::llabs(static_cast<int64_t>(summary.level_shifts[0]) - 240) <= 5;
      num_low += covers(summary.levels[0].median_interval, series.true_median());
      num_high += covers(summary.levels[1].median_interval, series.true_median() * 1.08);
    }
    const size_t percent =
        rho < 0.8 ? 95 : 88;  // 400 steps of rho 0.8 are worth 44: a change is hard to tell from slow noise
    EXPECT_GE(num_unsteady, kShiftTraces * percent / 100) << rho;
    EXPECT_GE(num_found, kShiftTraces * percent / 100) << rho;
    EXPECT_GE(num_near, num_found * 95 / 100) << rho;
    EXPECT_NEAR(static_cast<double>(num_low) / static_cast<double>(num_found), 0.95, 0.02) << rho;
    EXPECT_NEAR(static_cast<double>(num_high) / static_cast<double>(num_found), 0.95, 0.02) << rho;
  }
}

TEST(Series, DriftIsFoundAndMeasured) {
  for (const double rho : {0.0, 0.5, 0.8}) {
    const SyntheticSeries series{.name = "drift", .num_steps = 500, .rho = rho, .drift = 0.06};
    size_t num_found = 0;
    double sum = 0;
    for (uint64_t trace = 0; trace < 200; ++trace) {
      const SeriesSummary summary = summarise_series(series.make(trace));
      EXPECT_FALSE(summary.is_steady);
      if (!summary.drift_per_1000_steps) continue;
      ++num_found;
      sum += *summary.drift_per_1000_steps;
    }
    EXPECT_GE(num_found, 190u) << rho;
    EXPECT_NEAR(sum / static_cast<double>(num_found), 0.12 / 1.03, 0.006) << rho;
  }
}

TEST(Series, ALevelThatComesAndGoesIsTwoShifts) {
  SyntheticSeries series{.name = "stretch", .num_steps = 300};
  std::vector<double> steps = series.make(0);
  for (size_t i = 120; i < 200; ++i) steps[i] *= 1.04;
  const SeriesSummary summary = summarise_series(steps);
  ASSERT_EQ(summary.levels.size(), 3u);
  EXPECT_NEAR(static_cast<double>(summary.level_shifts[0]), 120, 3);
  EXPECT_NEAR(static_cast<double>(summary.level_shifts[1]), 200, 3);
  EXPECT_FALSE(summary.is_steady);
  EXPECT_TRUE(has_note(summary.notes, "level of the step times changes"));
}

TEST(Series, OutliersAreClassifiedAndKept) {
  SyntheticSeries series{.name = "outliers", .num_steps = 400, .spike_every = 40};
  std::vector<double> steps = series.make(3);
  steps[101] = 180;
  for (size_t i = 250; i < 262; ++i) steps[i] = 140;
  const SeriesSummary summary = summarise_series(steps);
  size_t num_isolated = 0, num_periodic = 0, num_regime = 0;
  for (const Outlier& outlier : summary.outliers) {
    num_isolated += outlier.kind == OutlierKind::kIsolated;
    num_periodic += outlier.kind == OutlierKind::kPeriodic;
    num_regime += outlier.kind == OutlierKind::kRegime;
    EXPECT_EQ(outlier.step_ms, steps[outlier.index]);
    EXPECT_TRUE(outlier.index != 101 || outlier.kind == OutlierKind::kIsolated);
  }
  EXPECT_EQ(num_isolated, 1u);
  EXPECT_EQ(num_periodic, 10u);
  EXPECT_EQ(num_regime, 12u);
  EXPECT_GT(summary.mean_ms, summary.mean_without_outliers_ms + 1) << "outliers stay in the mean";
  EXPECT_NEAR(summary.mean_without_outliers_ms, 100, 0.2);
  EXPECT_NEAR(summary.tail_cost, summary.mean_ms / summary.median_ms - 1, 1e-12);
  EXPECT_TRUE(has_note(summary.notes, "1 isolated, 10 periodic, 12 in a regime"));
}

TEST(Series, LaunchPacingIsSeenAndBlockMeansRestoreTheTruth) {
  // The host stamps run ahead of the device and fall back: what one step gains the next loses. The true step takes 100
  // ms.
  core::CounterRng random(5);
  std::vector<double> jitter;
  for (int i = 0; i <= 300; ++i) jitter.push_back(40 * random.uniform());
  std::vector<double> steps;
  for (size_t i = 0; i < 300; ++i) steps.push_back(100 + jitter[i + 1] - jitter[i]);
  SeriesSummary summary = summarise_series(steps);
  EXPECT_TRUE(summary.is_dispatch_limited);
  EXPECT_GT(summary.block_steps, 1u);
  EXPECT_NEAR(summary.median_ms, 100, 1);
  // Nine steps are only queued; the tenth waits for all of them.
  steps.clear();
  for (size_t i = 0; i < 400; ++i) steps.push_back(i % 10 == 9 ? 100 - 9 * 2 + 10 * 8 : 2 + 0.1 * random.uniform());
  summary = summarise_series(steps);
  EXPECT_TRUE(summary.is_dispatch_limited);
  EXPECT_NEAR(summary.median_ms, (9 * 2.05 + 162) / 10, 0.1);
}

TEST(Series, ASlowStepNowAndThenIsNoLaunchPacing) {
  for (const size_t period : {3, 4, 5, 8, 10, 16, 20, 25, 50}) {
    core::CounterRng random(6);
    std::vector<double> steps;
    for (size_t i = 0; i < 4000; ++i)
      steps.push_back(500 + 10 * (random.uniform() - 0.5) + (i % period == period - 1 ? 3000 : 0));
    const SeriesSummary summary = summarise_series(steps);
    EXPECT_FALSE(summary.is_dispatch_limited) << period;
    EXPECT_NEAR(summary.median_ms, 500, 3) << period;
    EXPECT_NEAR(summary.mean_ms, 500 + 3000 / static_cast<double>(period), 10) << period;
  }
}

TEST(Series, LaunchPacingIsNotLookedForInMeansAndSamplesOfSteps) {
  core::CounterRng random(5);
  std::vector<double> rows;
  for (size_t i = 0; i < 400; ++i) rows.push_back(100 + (i % 2 == 0 ? 5 : -5) + random.uniform());
  EXPECT_TRUE(summarise_series(rows).is_dispatch_limited);
  const SeriesSummary summary = summarise_series(rows, {.has_every_step = false});
  EXPECT_FALSE(summary.is_dispatch_limited);
  EXPECT_EQ(summary.block_steps, 1u);
}

TEST(Series, EffectiveStepsAreAtMostTheMeasuredOnes) {
  core::CounterRng random(9);
  std::vector<double> steps, jitter{0};
  for (size_t i = 1; i <= 200; ++i) {
    jitter.push_back(random.uniform());
    steps.push_back(100 + jitter[i] - 0.3 * jitter[i - 1]);
  }
  const SeriesSummary summary = summarise_series(steps, {.has_every_step = false});
  EXPECT_LT(autocorrelation(steps, 1), -0.1);
  EXPECT_LE(summary.effective_steps, static_cast<double>(summary.num_measured_steps));
}

TEST(Series, ElbowIsTheShareOfUndisturbedSteps) {
  core::CounterRng random(8);
  std::vector<double> steps;
  for (int i = 0; i < 1000; ++i)
    steps.push_back(100 + random.normal() + (random.uniform() < 0.2 ? random.uniform(10, 60) : 0));
  EXPECT_NEAR(summarise_series(steps).elbow, 0.8, 0.03);
  for (double& step : steps) step = 100 + random.normal() + (random.uniform() < 0.6 ? random.uniform(10, 60) : 0);
  const SeriesSummary contaminated = summarise_series(steps);
  EXPECT_NEAR(contaminated.elbow, 0.4, 0.07);  // the slow steps begin close above the fast ones
  EXPECT_TRUE(has_note(contaminated.notes, "the median itself is slowed down"));
  for (double& step : steps) step = 100 + random.normal();
  EXPECT_GT(summarise_series(steps).elbow, 0.99);
}

TEST(Series, ShortConstantAndOddRunsAreExplainedNotRefused) {
  const SeriesSummary one = summarise_series(std::vector<double>{5});
  EXPECT_EQ(one.median_ms, 5);
  EXPECT_EQ(one.num_measured_steps, 1u);
  EXPECT_FALSE(one.median_interval);
  EXPECT_TRUE(has_note(one.notes, "too few"));
  const SeriesSummary twelve = summarise_series(std::vector<double>(12, 7.0));
  EXPECT_EQ(twelve.num_warmup_steps, 6u);
  EXPECT_TRUE(twelve.is_warmup_too_long);
  EXPECT_TRUE(has_note(twelve.notes, "too short for a warm-up of 10 steps"));
  const SeriesSummary constant = summarise_series(std::vector<double>(200, 7.0));
  EXPECT_EQ(constant.median_ms, 7);
  EXPECT_EQ(constant.coefficient_of_variation, 0);
  EXPECT_TRUE(constant.is_steady);
  EXPECT_TRUE(constant.outliers.empty());
  ASSERT_TRUE(constant.median_interval);
  EXPECT_NEAR(constant.median_interval->high, 7, 0.006);  // the printed digit
  EXPECT_FALSE(constant.is_dispatch_limited);
  std::vector<double> falling;
  for (int i = 0; i < 200; ++i) falling.push_back(i < 150 ? 300 - i : 150);
  EXPECT_TRUE(summarise_series(falling).is_warmup_too_long);
  EXPECT_TRUE(has_note(summarise_series(falling).notes, "its warm-up has not ended"));
  EXPECT_THROW(summarise_series({}), Error);
  EXPECT_THROW(summarise_series(std::vector<double>{1, 0}), Error);
}

/// Chance must not take half of a short steady log for warm-up: the six rolling medians of ten rows overlap, and are
/// alike by chance. By their own spread alone one trace of five lost rows beyond the slow one.
TEST(Series, AShortSteadyLogLosesItsSlowRowsOnly) {
  constexpr size_t kNumTraces = 500;
  const SyntheticSeries rows{.name = "short steady log", .num_steps = 20, .sigma = 0.003};
  size_t num_cut = 0, num_found = 0;
  for (size_t trace = 0; trace < kNumTraces; ++trace) {
    std::vector<double> row_ms = rows.make(trace);
    row_ms[0] *= 1.5;
    const size_t end = find_warmup_end(row_ms);
    num_cut += end > 3 ? 1 : 0, num_found += end > 0 ? 1 : 0;
  }
  EXPECT_EQ(num_found, kNumTraces);
  EXPECT_LE(num_cut, kNumTraces * 6 / 100);
}

/// Rows of a log are means of many steps: one or two of them hold the whole warm-up, and the median of the first five
/// rows is steady.
TEST(Series, AWarmUpOfOneOrTwoRowsIsFound) {
  for (const size_t num_slow : {1, 2}) {
    const SyntheticSeries rows{.name = "rows of a log", .num_steps = 41, .sigma = 0.005};
    std::vector<double> row_ms = rows.make(num_slow);
    for (size_t i = 0; i < num_slow; ++i) row_ms[i] *= i + 1 < num_slow ? 20 : 1.5;
    EXPECT_EQ(summarise_series(row_ms, {.min_warmup_steps = 0}).num_warmup_steps, num_slow);
  }
}

TEST(Series, TheUserSetsTheWarmUp) {
  const SyntheticSeries series{.name = "given", .num_steps = 100};
  const std::vector<double> steps = series.make(0);
  EXPECT_EQ(summarise_series(steps, {.warmup_steps = 0}).num_measured_steps, 100u);
  EXPECT_EQ(summarise_series(steps, {.warmup_steps = 37}).num_warmup_steps, 37u);
  const SeriesSummary seconds = summarise_series(steps, {.min_warmup_s = 2});
  EXPECT_NEAR(static_cast<double>(seconds.num_warmup_steps), 20, 1);
  const SeriesSummary nothing = summarise_series(steps, {.warmup_steps = 100});
  EXPECT_EQ(nothing.num_measured_steps, 1u);
  EXPECT_TRUE(has_note(nothing.notes, "leaves nothing of 100"));
}

TEST(Series, TheOrderStatisticsAreThoseOfTheMeasuredSteps) {
  std::vector<double> steps;
  const core::Permutation order(101, 1);
  for (uint64_t i = 0; i < 101; ++i) steps.push_back(100 + static_cast<double>(order(i)));
  const SeriesSummary summary = summarise_series(steps, {.warmup_steps = 0});
  EXPECT_EQ(summary.median_ms, 150);
  EXPECT_EQ(summary.mean_ms, 150);
  EXPECT_EQ(summary.p90_ms, 190);
  EXPECT_EQ(summary.p99_ms, 199);
  EXPECT_EQ(summary.min_ms, 100);
  EXPECT_EQ(summary.max_ms, 200);
  EXPECT_NEAR(summary.measured_s, 101 * 0.150, 1e-9);
  EXPECT_FALSE(summarise_series(std::span(steps).first(99), {.warmup_steps = 0}).p99_ms);
}

TEST(Series, WeightedValuesAnswerAsTheValuesThemselves) {
  std::vector<double> rounded, many;
  for (int i = 0; i < 700; ++i) rounded.push_back(100 + (i * 7919 % 100 < 97 ? 0 : i % 5));
  for (int i = 0; i < 20000; ++i) many.push_back(std::exp(0.1 * (i * 7919 % 20011) / 20011.0));
  const auto few = weighted_values(rounded), thinned = weighted_values(many, 1000);
  EXPECT_LE(few.size(), 5u);
  EXPECT_LE(thinned.size(), 1000u);
  for (const double p : {0.0, 5.0, 50.0, 95.0, 97.1, 99.0, 100.0})
    EXPECT_DOUBLE_EQ(weighted_percentile(few, p), percentile(rounded, p)) << p;
  for (const double p : {5.0, 50.0, 95.0, 99.0})
    EXPECT_NEAR(weighted_percentile(thinned, p) / percentile(many, p), 1, 2e-4) << p;
}

}  // namespace
}  // namespace lockstep::stats
