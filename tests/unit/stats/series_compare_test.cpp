#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/rng.h"
#include "stats/series.h"
#include "stats/series_interval.h"
#include "stats/statistics.h"
#include "unit/stats/synthetic_series.h"

namespace lockstep::stats {
namespace {

constexpr uint64_t kTrials = 2000;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A run whose median is 100 ms x (1 + 2 % x normal), as other nodes and hours make it.
SeriesSummary run_of(core::CounterRng& random, double base_ms = 100) {
  SeriesSummary run{.num_steps = 110, .num_measured_steps = 100};
  run.median_ms = base_ms * (1 + 0.02 * random.normal());
  run.measured_s = run.median_ms * 0.1;
  return run;
}

TEST(Runs, IntervalsOverRunsCoverTheTruth) {
  for (const size_t num_runs : {2, 3, 5, 12}) {
    size_t num_covered = 0;
    for (uint64_t trial = 0; trial < kTrials; ++trial) {
      core::CounterRng random(core::stream_key({31, num_runs, trial}));
      std::vector<SeriesSummary> runs;
      for (size_t i = 0; i < num_runs; ++i) runs.push_back(run_of(random));
      const PointEstimate point = combine_runs(runs);
      num_covered += point.median_interval->low <= 100 && 100 <= point.median_interval->high;
    }
    EXPECT_NEAR(static_cast<double>(num_covered) / kTrials, 0.95, 0.015) << num_runs << " runs";
  }
}

struct RunMedians {
  const char* name;
  std::vector<size_t> counts;  ///< Of runs, for which the interval is promised to cover.
  double truth_ms;             ///< exp(expected logarithm), what many runs would agree on.
  double (*draw)(core::CounterRng& random);
};

/// Runs that fall on fast and on slow nodes, or have a tail to the slow side: the median of a few is no part of
/// Student's interval there.
TEST(Runs, SkewedAndBimodalRunsHaveTheirValueInsideAnIntervalThatCovers) {
  const RunMedians kinds[] = {{"two modes",
                               {11, 24},
                               std::exp((6 * std::log(105.0) + 5 * std::log(136.5)) / 11),
                               [](core::CounterRng& random) {
                                 return (random.uniform() < 6.0 / 11 ? 105 : 136.5) * std::exp(0.002 * random.normal());
                               }},
                              {"tail",
                               {3, 5, 11, 24},
                               100 * std::exp(0.05),  // an exponential tail of 5 % on the logarithm
                               [](core::CounterRng& random) {
                                 return 100 * std::exp(0.02 * random.normal() - 0.05 * std::log(1 - random.uniform()));
                               }}};
  for (const RunMedians& kind : kinds)
    for (const size_t num_runs : kind.counts) {
      size_t num_covered = 0, num_medians_outside = 0;
      for (uint64_t trial = 0; trial < kTrials; ++trial) {
        core::CounterRng random(core::stream_key({35, num_runs, trial}));
        std::vector<SeriesSummary> runs;
        std::vector<double> medians;
        for (size_t i = 0; i < num_runs; ++i) {
          runs.push_back(run_of(random));
          runs.back().median_ms = kind.draw(random);
          medians.push_back(runs.back().median_ms);
        }
        const PointEstimate point = combine_runs(runs);
        const Interval& interval = *point.median_interval;
        ASSERT_LE(interval.low, point.median_ms) << kind.name << ", " << num_runs << " runs, trial " << trial;
        ASSERT_LE(point.median_ms, interval.high) << kind.name << ", " << num_runs << " runs, trial " << trial;
        num_covered += interval.low <= kind.truth_ms && kind.truth_ms <= interval.high;
        num_medians_outside += median(medians) < interval.low || median(medians) > interval.high;
      }
      EXPECT_NEAR(static_cast<double>(num_covered) / kTrials, 0.95, 0.03) << kind.name << ", " << num_runs << " runs";
      if (kind.counts.front() > 10) {
        EXPECT_GT(num_medians_outside, kTrials / 50) << "the trial tells the median from the geometric mean";
      }
    }
}

TEST(Runs, SixFastAndFiveSlowRunsHaveOneValueInsideTheirInterval) {
  std::vector<SeriesSummary> runs(11, {.num_steps = 60, .num_measured_steps = 50, .measured_s = 5});
  for (size_t i = 0; i < runs.size(); ++i) runs[i].median_ms = i < 6 ? 105 : 136.5;
  const PointEstimate point = combine_runs(runs);
  EXPECT_NEAR(point.median_ms, std::pow(std::pow(105.0, 6) * std::pow(136.5, 5), 1.0 / 11), 1e-9);
  EXPECT_NEAR(point.median_interval->low, 107.9, 0.1);
  EXPECT_NEAR(point.median_interval->high, 129.7, 0.1);
}

TEST(Runs, OneTwoAndThreeRunsSayWhatTheyAreWorth) {
  std::vector<SeriesSummary> runs(3);
  const double medians[] = {100, 104, 99};
  for (size_t i = 0; i < 3; ++i)
    runs[i] = {.num_steps = 60, .num_measured_steps = 50 * (i + 1), .measured_s = 5.0 * static_cast<double>(i + 1)};
  for (size_t i = 0; i < 3; ++i) runs[i].median_ms = medians[i];
  runs[0].median_interval = Interval{98, 102, "inside"};
  const PointEstimate one = combine_runs(std::span(runs).first(1));
  EXPECT_EQ(one.median_interval->high, 102);
  EXPECT_FALSE(one.olympic_mean_ms);
  EXPECT_TRUE(contains(one.notes[0], "one run"));
  const PointEstimate two = combine_runs(std::span(runs).first(2));
  const double centre = std::sqrt(100 * 104.0), half = 12.706 * std::log(1.04) / 2;  // on logarithms
  EXPECT_NEAR(two.median_ms, centre, 1e-9);
  EXPECT_NEAR(two.median_interval->high, centre * std::exp(half), 0.01);
  EXPECT_NEAR(two.median_interval->low, centre * std::exp(-half), 0.01);
  EXPECT_TRUE(contains(two.notes[0], "12.7"));
  runs[1].is_steady = false;
  const PointEstimate three = combine_runs(runs);
  EXPECT_NEAR(three.median_ms, std::cbrt(100 * 104.0 * 99), 1e-9);
  EXPECT_NEAR(three.mean_ms, 1000 * 30.0 / 300, 1e-9) << "total time over total steps";
  EXPECT_TRUE(three.olympic_mean_ms.has_value());
  EXPECT_TRUE(contains(three.notes[0], "4.3"));
  EXPECT_TRUE(contains(three.notes[1], "1 of 3 runs had no steady state"));
  EXPECT_THROW(combine_runs({}), Error);
}

TEST(Runs, RunsFarApartHaveAWideIntervalOfPositiveTimes) {
  std::vector<SeriesSummary> runs(2, {.num_steps = 60, .num_measured_steps = 50, .measured_s = 5});
  runs[0].median_ms = 100, runs[1].median_ms = 150;
  const PointEstimate point = combine_runs(runs);
  EXPECT_GT(point.median_interval->low, 0);
  EXPECT_LT(point.median_interval->low, 100.0 / 5);
  EXPECT_GT(point.median_interval->high, 150 * 5);
}

/// Jobs differ by 2 %, the three runs of each by 0.2 %: counted as independent, the runs would cover the truth in far
/// fewer trials.
TEST(Runs, RunsOfOneJobAreNoIndependentRepeats) {
  size_t num_covered = 0, num_pooled_covered = 0;
  for (uint64_t trial = 0; trial < kTrials; ++trial) {
    core::CounterRng random(core::stream_key({33, trial}));
    std::vector<SeriesSummary> runs;
    std::vector<std::string> jobs;
    for (const char* job : {"1", "2", "3"}) {
      const double level_ms = run_of(random).median_ms;
      for (int i = 0; i < 3; ++i) {
        runs.push_back(run_of(random));
        runs.back().median_ms = level_ms * (1 + 0.002 * random.normal());
        jobs.push_back(job);
      }
    }
    const auto covers = [](const PointEstimate& point) {
      return point.median_interval->low <= 100 && 100 <= point.median_interval->high;
    };
    num_covered += covers(combine_runs(runs, jobs));
    num_pooled_covered += covers(combine_runs(runs));
  }
  EXPECT_NEAR(static_cast<double>(num_covered) / kTrials, 0.95, 0.015);
  EXPECT_LT(static_cast<double>(num_pooled_covered) / kTrials, 0.85) << "the trial tells the two apart";
  EXPECT_EQ(values_by_allocation(std::vector<double>{2, 10, 8, 7, 5}, std::vector<std::string>{"x", "", "x", "", "y"}),
            (std::vector<double>{4, 10, 7, 5}));
}

TEST(Runs, TheRunsOfASingleJobSayWhatTheyAreWorth) {
  std::vector<SeriesSummary> runs(3, {.num_steps = 60, .num_measured_steps = 50, .measured_s = 5});
  for (size_t i = 0; i < 3; ++i) runs[i].median_ms = 100 + static_cast<double>(i);
  const PointEstimate point = combine_runs(runs, std::vector<std::string>(3, "7"));
  ASSERT_TRUE(point.median_interval);
  EXPECT_TRUE(contains(point.notes.at(1), "shared one job")) << point.notes.at(1);
}

TEST(Runs, RoundedTimesThatAgreeAreNotCertain) {
  std::vector<SeriesSummary> runs;
  for (int i = 0; i < 2; ++i)
    runs.push_back(summarise_series(std::vector<double>(40, 1010.0), {.min_warmup_steps = 0}));
  EXPECT_EQ(runs[0].resolution_ms, 10);
  EXPECT_LE(runs[0].median_interval->low, 1005);
  const PointEstimate point = combine_runs(runs);
  EXPECT_LT(point.median_interval->low, 1005.1);
  EXPECT_GT(point.median_interval->high, 1014.9);
  EXPECT_TRUE(contains(point.notes.back(), "agree to the printed digit")) << point.notes.back();
  const std::vector<double> mixed{231.25, 231.75, 231.5},
      fine = SyntheticSeries{.name = "fine", .num_steps = 40}.make(1);
  EXPECT_NEAR(summarise_series(mixed, {.warmup_steps = 0}).resolution_ms, 0.01, 1e-12);
  EXPECT_EQ(summarise_series(fine, {.warmup_steps = 0}).resolution_ms, 0);
  EXPECT_EQ(summarise_series(std::vector<double>(40, 1e4 / 3), {.warmup_steps = 0}).resolution_ms, 10)
      << "rounded as a rate, then converted";
}

TEST(Runs, RunsThatAgreeByChanceKeepTheirOwnNoise) {
  std::vector<SeriesSummary> runs(2, {.num_steps = 60,
                                      .num_measured_steps = 50,
                                      .measured_s = 5,
                                      .median_ms = 100,
                                      .median_interval = Interval{98, 102, "inside"}});
  const PointEstimate point = combine_runs(runs);
  EXPECT_NEAR(point.median_interval->high, 100 * std::exp(std::log(102.0 / 98) / 2 / std::sqrt(2.0)), 1e-9);
  EXPECT_TRUE(contains(point.notes.back(), "noise inside them")) << point.notes.back();
}

/// A single value against a few: the interval covers where both sides scatter alike.
TEST(Comparisons, ASingleValueIsGivenTheSpreadOfTheFew) {
  size_t num_covered = 0;
  for (uint64_t trial = 0; trial < kTrials; ++trial) {
    core::CounterRng random(core::stream_key({34, trial}));
    std::vector<double> few;
    for (int i = 0; i < 3; ++i) few.push_back(103 * std::exp(0.01 * random.normal()));
    const Comparison comparison =
        compare_samples(few, std::vector<double>{100 * std::exp(0.01 * random.normal())}, false);
    ASSERT_TRUE(comparison.interval);
    num_covered += comparison.interval->low <= 1.03 && 1.03 <= comparison.interval->high;
  }
  EXPECT_NEAR(static_cast<double>(num_covered) / kTrials, 0.95, 0.015);
  const Comparison rounded = compare_samples(std::vector<double>{100, 100}, std::vector<double>{100, 100}, false, 0.01);
  EXPECT_NEAR(rounded.interval->high, std::exp(0.01), 1e-9);
}

TEST(Comparisons, PairedIntervalsCoverTheRatioAndUnpairedOnesToo) {
  size_t num_paired = 0, num_unpaired = 0;
  for (uint64_t trial = 0; trial < kTrials; ++trial) {
    core::CounterRng random(core::stream_key({32, trial}));
    std::vector<double> a, b;
    for (int i = 0; i < 6; ++i) {
      const double host = 1 + 0.1 * random.uniform();  // slow and fast hours, the same for both
      a.push_back(103 * host * std::exp(0.01 * random.normal()));
      b.push_back(100 * host * std::exp(0.01 * random.normal()));
    }
    const Comparison paired = compare_samples(a, b, true), unpaired = compare_samples(a, b, false);
    num_paired += paired.interval->low <= 1.03 && 1.03 <= paired.interval->high;
    num_unpaired += unpaired.interval->low <= 1.03 && 1.03 <= unpaired.interval->high;
    EXPECT_LT(paired.interval->high - paired.interval->low, 2 * (unpaired.interval->high - unpaired.interval->low));
  }
  EXPECT_NEAR(static_cast<double>(num_paired) / kTrials, 0.95, 0.015);
  EXPECT_GE(static_cast<double>(num_unpaired) / kTrials, 0.93)
      << "pairs are not independent: the unpaired interval is too wide, never too narrow";
}

TEST(Comparisons, RatiosOfTwoModesLieInsideTheirInterval) {
  for (const bool is_paired : {false, true})
    for (uint64_t trial = 0; trial < 500; ++trial) {
      core::CounterRng random(core::stream_key({36, trial}));
      std::vector<double> a, b;
      for (int i = 0; i < 11; ++i) {
        a.push_back(random.uniform() < 6.0 / 11 ? 105 : 136.5);
        b.push_back(100 * std::exp(0.002 * random.normal()));
      }
      const Comparison comparison = compare_samples(a, b, is_paired);
      ASSERT_LE(comparison.interval->low, comparison.ratio) << "trial " << trial;
      ASSERT_LE(comparison.ratio, comparison.interval->high) << "trial " << trial;
      ASSERT_NEAR(centre_of_runs(a) / centre_of_runs(b), comparison.ratio, 1e-12)
          << "what is printed beside the ratio gives it";
    }
}

/// A long series against a few values: means on both sides, the long one's with its autocorrelation.
TEST(Comparisons, ALongSeriesAndAFewValuesAreReducedAlike) {
  const SyntheticSeries steps{.name = "steps", .num_steps = 300, .rho = 0.8};
  size_t num_covered = 0;
  for (uint64_t trial = 0; trial < 500; ++trial) {
    core::CounterRng random(core::stream_key({37, trial}));
    const std::vector<double> many = steps.make(trial);
    std::vector<double> few;
    for (int i = 0; i < 6; ++i) few.push_back(100 * std::exp(0.01 * random.normal()));
    const Comparison comparison = compare_samples(many, few, false);
    double sum = 0;
    for (const double value : many) sum += std::log(value) / 300;
    ASSERT_NEAR(centre_of_runs(many), std::exp(sum), 1e-9);
    ASSERT_NEAR(centre_of_runs(many) / centre_of_runs(few), comparison.ratio, 1e-12);
    ASSERT_TRUE(comparison.interval->low <= comparison.ratio && comparison.ratio <= comparison.interval->high);
    num_covered += comparison.interval->low <= 1 && 1 <= comparison.interval->high;
  }
  EXPECT_NEAR(static_cast<double>(num_covered) / 500, 0.95, 0.03);
}

TEST(Comparisons, LongSeriesKeepTheirAutocorrelation) {
  const SyntheticSeries left{.name = "left", .num_steps = 300, .rho = 0.8},
      right{.name = "right", .num_steps = 200, .rho = 0.5};
  size_t num_covered = 0, num_rejected = 0;
  for (uint64_t trial = 0; trial < 1000; ++trial) {
    const Comparison comparison = compare_samples(left.make(trial), right.make(trial), false);
    num_covered += comparison.interval->low <= 1 && 1 <= comparison.interval->high;
    num_rejected += comparison.interval->low > 1 || comparison.interval->high < 1;
  }
  EXPECT_NEAR(static_cast<double>(num_covered) / 1000, 0.95, 0.02);
  EXPECT_LE(num_rejected, 70u);
}

TEST(Comparisons, RankWinsAreThoseOfThePlainLoop) {
  core::CounterRng random(11, 1);
  for (size_t trial = 0; trial < 200; ++trial) {
    std::vector<double> a(1 + random.below(40)), b(1 + random.below(40));
    const uint64_t num_values = trial % 2 == 0 ? 12 : 1'000'000'000;  // with ties and without
    for (std::vector<double>* side : {&a, &b})
      for (double& value : *side) value = 1 + static_cast<double>(random.below(num_values));
    double wins = 0;
    bool has_ties = false;
    for (const double x : a)
      for (const double y : b) {
        wins += x > y ? 1 : x == y ? 0.5 : 0;
        has_ties = has_ties || x == y;
      }
    const RankWins counted = count_rank_wins(a, b);
    EXPECT_EQ(counted.wins, wins) << trial;
    EXPECT_EQ(counted.has_ties, has_ties) << trial;
  }
  // 10^10 pairs: out of reach for a loop over them.
  std::vector<double> low(100'000, 1), high(100'000, 2);
  EXPECT_EQ(count_rank_wins(high, low).wins, 1e10);
  EXPECT_EQ(count_rank_wins(low, low).wins, 0.5e10);
}

TEST(Comparisons, OfAFewValuesHaveAnIntervalAndTheRankTest) {
  const std::vector<double> fast{100, 101, 99, 100.5}, slow{110, 111, 109.5, 110.2};
  const Comparison clear = compare_samples(fast, slow, false);
  EXPECT_NEAR(clear.ratio, 0.9088, 1e-4);
  EXPECT_LT(clear.interval->high, 1);
  EXPECT_NEAR(clear.rank_p.value(), 2.0 / 70, 1e-12) << "2 of the 70 orders";
  const Comparison paired = compare_samples(slow, fast, true);
  EXPECT_GT(paired.interval->low, 1);
  EXPECT_FALSE(paired.rank_p);
  const Comparison same = compare_samples(fast, std::vector<double>{100, 102, 98, 101}, false);
  EXPECT_TRUE(same.interval->low < 1 && same.interval->high > 1);
  EXPECT_GT(same.rank_p.value(), 0.5);
  const Comparison single = compare_samples(std::vector<double>{100}, std::vector<double>{90}, false);
  EXPECT_FALSE(single.interval);
  EXPECT_NEAR(single.ratio, 100.0 / 90, 1e-12);
  const Comparison three =
      compare_samples(std::vector<double>{100, 100.2, 99.8}, std::vector<double>{120, 120.1, 119.9}, false);
  EXPECT_LT(three.interval->high, 1);
  EXPECT_NEAR(three.rank_p.value(), 2.0 / 20, 1e-12) << "no order of six values is rarer";
  EXPECT_THROW(compare_samples(fast, std::vector<double>{1, 2}, true), Error);
  EXPECT_THROW(compare_samples(fast, std::vector<double>{1, -2}, false), Error);
}

}  // namespace
}  // namespace lockstep::stats
