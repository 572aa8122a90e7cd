// Samples to one loss: made-up curves whose ratio of samples is known.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "analysis/curve.h"
#include "analysis/losses.h"
#include "core/rng.h"
#include "stats/statistics.h"

namespace lockstep::analysis {
namespace {

/// Falls from 7 to 2.
double exponential(double samples) { return 2 + 5 * std::exp(-samples / 8e5); }
double power_law(double samples) { return 1.5 + 9 * std::pow(1 + samples / 2e4, -0.4); }

/// One run: a curve over samples x stretch, with noise in proportion to 1 / sqrt(batch), autoregressive over steps.
struct LossPlan {
  double batch = 4096, num_samples = 4e6;
  double stretch = 1;  ///< So many times the samples for the same loss.
  double noise = 0.2;  ///< Standard deviation at batch 4096.
  double rho = 0;
  std::function<double(double)> curve = exponential;
  std::string job{};
};

record::RunData make_losses(const LossPlan& plan, uint64_t seed) {
  record::RunData run;
  core::CounterRng random(
      core::stream_key({seed, static_cast<uint64_t>(plan.batch), static_cast<uint64_t>(plan.stretch * 1000)}));
  double z = random.normal();
  for (double seen = plan.batch; seen <= plan.num_samples; seen += plan.batch) {
    z = plan.rho * z + std::sqrt(1 - plan.rho * plan.rho) * random.normal();
    run.steps.step.push_back(static_cast<int64_t>(run.steps.step.size()));
    run.steps.samples.push_back(plan.batch);
    run.steps.samples_seen.push_back(seen);
    run.steps.loss.push_back(plan.curve(seen / plan.stretch) + plan.noise * std::sqrt(4096 / plan.batch) * z);
  }
  return run;
}

/// Curve of one size for each list of plans, the first one the base; seeds go up run by run.
struct Compared {
  std::vector<RunSummary> runs{};
  Curve curve{.id = "a", .name = "a model"};

  Compared(const std::vector<std::vector<LossPlan>>& sizes, uint64_t seed) {
    for (const auto& plans : sizes) {
      Point point{.size = int64_t{1} << curve.points.size()};
      for (const LossPlan& plan : plans) {
        point.runs.push_back(runs.size());
        add(make_losses(plan, 1000 * seed + runs.size()), plan.job);
      }
      curve.points.push_back(std::move(point));
    }
    curve.base = 0;
  }
  void add(const record::RunData& run, const std::string& job = "") {
    RunSummary summary{.name = fmt::format("run-{}", runs.size())};
    summary.allocation = job;
    summary.losses = loss_points(run);
    runs.push_back(std::move(summary));
  }
  const std::vector<Point>& compare() {
    fill_losses(curve, runs);
    return curve.points;
  }
};

/// Over many seeds: the median ratio and how often the interval holds the truth, size by size.
struct LossRate {
  double median_ratio = 0, coverage = 0, told = 0;
};
std::vector<LossRate> rates_of(const std::vector<std::vector<LossPlan>>& sizes, const std::vector<double>& truth,
                               uint64_t num_seeds) {
  std::vector<std::vector<double>> ratios(sizes.size());
  std::vector<double> covered(sizes.size(), 0);
  for (uint64_t seed = 1; seed <= num_seeds; ++seed) {
    Compared compared(sizes, seed);
    const auto& points = compared.compare();
    for (size_t i = 1; i < sizes.size(); ++i)
      if (const auto& ratio = points[i].samples_to_loss_ratio) {
        ratios[i].push_back(ratio->value);
        covered[i] += ratio->low <= truth[i] && truth[i] <= ratio->high ? 1 : 0;
      }
  }
  std::vector<LossRate> rates;
  for (size_t i = 1; i < sizes.size(); ++i) {
    const double told = static_cast<double>(ratios[i].size());
    if (told == 0)
      rates.push_back({});
    else
      rates.push_back({stats::median(ratios[i]), covered[i] / told, told / static_cast<double>(num_seeds)});
  }
  return rates;
}

/// The case of the review: one curve, three batches, noise in proportion to 1 / sqrt(batch). The first value at or
/// below the largest of the minima, as the report once took it, lies 1.27 and 1.35 times as far for the last size at
/// noise 0.2 and 0.3.
std::vector<std::vector<LossPlan>> three_batches(const LossPlan& plan, double last_stretch = 1) {
  LossPlan middle = plan, large = plan;
  middle.batch = 4 * plan.batch;
  large.batch = 16 * plan.batch;
  large.stretch = last_stretch;
  return {{plan}, {middle}, {large}};
}

TEST(SamplesToLoss, NoiseThatShrinksWithTheBatchLooksLikeNoCost) {
  for (const auto& curve : {exponential, power_law})
    for (const double batch : {256, 4096})
      for (const double noise : {0.1, 0.2, 0.3})
        for (const LossRate& rate : rates_of(three_batches({.batch = batch, .noise = noise, .curve = curve}), {1, 1, 1},
                                             batch < 1000 ? 100 : 300)) {
          EXPECT_NEAR(rate.median_ratio, 1, 0.01) << batch << " " << noise;
          EXPECT_GE(rate.coverage, 0.92) << batch << " " << noise;
          EXPECT_LE(rate.coverage, 0.99) << batch << " " << noise;
          EXPECT_GE(rate.told, 0.99) << batch << " " << noise;
        }
}

TEST(SamplesToLoss, DependentNoiseOfStepsWidensTheInterval) {
  for (const LossRate& rate : rates_of(three_batches({.batch = 512, .rho = 0.6}), {1, 1, 1}, 200)) {
    EXPECT_NEAR(rate.median_ratio, 1, 0.01);
    EXPECT_GE(rate.coverage, 0.92);
    EXPECT_GE(rate.told, 0.99);
  }
}

TEST(SamplesToLoss, ARealCostIsFoundAndRated) {
  const auto sizes = three_batches({}, 1.5);
  const auto rates = rates_of(sizes, {1, 1, 1.5}, 200);
  EXPECT_NEAR(rates[1].median_ratio, 1.5, 0.015);
  EXPECT_GE(rates[1].coverage, 0.92);
  EXPECT_LE(rates[1].coverage, 0.99);
  EXPECT_NEAR(rates[0].median_ratio, 1, 0.01);
  Compared one(sizes, 1);
  const auto& points = one.compare();
  EXPECT_EQ(points[0].loss_verdict, "base");
  EXPECT_FALSE(points[0].samples_to_loss_ratio->has_range);
  EXPECT_EQ(points[1].loss_verdict, "no difference from the base shown");
  EXPECT_EQ(points[2].loss_verdict, "needs more samples than the base");
  const draw::Table table = loss_table(one.curve);
  ASSERT_EQ(table.rows.size(), 3u);
  const std::string target = table.rows[0][3].text;
  EXPECT_NE(table.caption.find("Target " + target), std::string::npos) << table.caption;
  EXPECT_NE(table.caption.find("parabola in ln(samples)"), std::string::npos) << table.caption;
  EXPECT_NEAR(*table.rows[2][5].value, 1.5, 0.1);
  EXPECT_LT(*table.rows[2][6].value, *table.rows[2][5].value);
  EXPECT_GT(*table.rows[2][7].value, *table.rows[2][5].value);
  ASSERT_EQ(table.notes.size(), 1u) << "one job a size";
}

TEST(SamplesToLoss, SmallerNeedIsSaidToo) {
  Compared one({{{.stretch = 1.4}}, {{.batch = 16384}}}, 3);
  EXPECT_EQ(one.compare()[1].loss_verdict, "needs fewer samples than the base");
  EXPECT_NEAR(one.curve.points[1].samples_to_loss_ratio->value, 1 / 1.4, 0.04);
}

TEST(SamplesToLoss, CurvesThatDoNotFallAreRefusedInWords) {
  const auto flat = [](double) { return 3.0; };
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Compared all(three_batches({.batch = 1024, .rho = 0.5, .curve = flat}), seed);
    for (size_t i = 1; i < 3; ++i) {
      EXPECT_FALSE(all.compare()[i].samples_to_loss_ratio) << seed;
      EXPECT_TRUE(all.curve.points[i].loss_verdict.starts_with("cannot be told: ")) << all.curve.points[i].loss_verdict;
    }
  }
  Compared one({{{}}, {{.batch = 16384}}, {{.batch = 65536, .curve = flat}}}, 1);
  const auto& points = one.compare();
  EXPECT_NEAR(points[1].samples_to_loss_ratio->value, 1, 0.1) << "the others are compared all the same";
  EXPECT_TRUE(points[2].loss_verdict.starts_with("cannot be told: the loss of run-2 goes from "))
      << points[2].loss_verdict;
  EXPECT_NE(points[2].loss_verdict.find("no fall against its noise"), std::string::npos) << points[2].loss_verdict;
  Compared base({{{.curve = flat}}, {{.batch = 16384}}, {{.batch = 65536}}}, 1);
  EXPECT_EQ(base.compare()[1].loss_verdict, "cannot be told: the base has no such number");
  EXPECT_TRUE(base.curve.points[1].samples_to_loss);
  Compared apart({{{}}, {{.batch = 16384, .curve = [](double samples) { return 20 + exponential(samples); }}}}, 1);
  EXPECT_NE(apart.compare()[1].loss_verdict.find("no range in common"), std::string::npos)
      << apart.curve.points[1].loss_verdict;
}

TEST(SamplesToLoss, WideIntervalsAndFewLossesTellNothing) {
  Compared noisy({{{.noise = 2, .curve = power_law}}, {{.batch = 16384, .noise = 2, .curve = power_law}}}, 2);
  EXPECT_NE(noisy.compare()[1].loss_verdict.find("cannot be told: the interval would reach from"), std::string::npos)
      << noisy.curve.points[1].loss_verdict;
  EXPECT_TRUE(noisy.curve.points[1].samples_to_loss);
  Compared few({{{}}, {{.batch = 4e5}}}, 2);
  EXPECT_EQ(few.compare()[1].loss_verdict, "cannot be told: run-1 logged 10 losses, 12 are needed");
  Compared around({{{}}, {{.batch = 3e5}}}, 2);
  EXPECT_NE(around.compare()[1].loss_verdict.find("losses were logged around the target, 12 are needed"),
            std::string::npos)
      << around.curve.points[1].loss_verdict;
}

TEST(SamplesToLoss, OneSizeNoBaseAndNoLossesAreNotCompared) {
  Compared single({{{}, {}}}, 1);
  single.compare();
  EXPECT_FALSE(single.curve.losses);
  EXPECT_TRUE(loss_table(single.curve).rows.empty());
  Compared without(three_batches({}), 1);
  without.curve.base.reset();
  without.compare();
  EXPECT_FALSE(without.curve.losses);
  Compared silent(three_batches({}), 1);
  for (RunSummary& run : silent.runs) run.losses.clear();
  silent.compare();
  EXPECT_FALSE(silent.curve.losses);
}

TEST(SamplesToLoss, LossesThatAreNotFiniteAndRunsOfOtherLengthsAreNoObstacle) {
  Compared compared({{{.num_samples = 6e6}}}, 5);
  record::RunData damaged = make_losses({.batch = 16384}, 17);
  for (size_t i = 0; i < damaged.steps.size(); i += 7) damaged.steps.loss[i] = i % 2 == 0 ? std::nan("") : INFINITY;
  for (size_t i = 220; i < damaged.steps.size(); ++i) damaged.steps.loss[i] = std::nan("");
  compared.add(damaged);
  compared.curve.points.push_back({.size = 2, .runs = {1}});
  compared.add(make_losses({.batch = 32768, .num_samples = 2e6}, 18));
  compared.curve.points.push_back({.size = 4, .runs = {2}});
  const auto& points = compared.compare();
  for (size_t i = 1; i < 3; ++i) {
    ASSERT_TRUE(points[i].samples_to_loss_ratio) << points[i].loss_verdict;
    EXPECT_NEAR(points[i].samples_to_loss_ratio->value, 1, 0.08);
  }
  EXPECT_LT(points[0].samples_to_loss->value, 2e6) << "where the shortest run still has losses";
}

TEST(SamplesToLoss, ARestartedRunCountsWithTheLossesOfAllAttempts) {
  record::RunData run = make_losses({}, 21);
  const std::vector<LossPoint> whole = loss_points(run);
  run.steps.attempt.assign(run.steps.size(), 1);
  for (size_t i = 400; i < run.steps.size(); ++i) run.steps.attempt[i] = 2;
  run.steps.step_ms.assign(run.steps.size(), 100);
  const RunSummary summary = summarise_run(run, {});
  ASSERT_EQ(summary.losses.size(), whole.size());
  EXPECT_EQ(summary.losses.front().samples_seen, 4096);
  EXPECT_EQ(summary.losses.back().samples_seen, whole.back().samples_seen);
}

TEST(SamplesToLoss, JobsOfASizeAreCombinedByTheirSpread) {
  const auto job = [](double batch, double stretch, const char* name) {
    return LossPlan{.batch = batch, .stretch = stretch, .noise = 0.02, .job = name};
  };
  Compared jobs({{job(256, 0.97, "1"), job(256, 1, "2"), job(256, 1.03, "3")},
                 {job(1024, 1.2, "4"), job(1024, 1.26, "5"), job(1024, 1.3, "6")},
                 {job(4096, 1, "7")}},
                1);
  const auto& points = jobs.compare();
  EXPECT_EQ(points[0].num_loss_values, 3u);
  const Estimate& ratio = *points[1].samples_to_loss_ratio;
  const double sd0 = stats::sample_stddev(std::vector{std::log(0.97), 0.0, std::log(1.03)}),
               sd1 = stats::sample_stddev(std::vector{std::log(1.2), std::log(1.26), std::log(1.3)});
  EXPECT_NEAR(ratio.value, std::cbrt(1.2 * 1.26 * 1.3 / (0.97 * 1.03)), 0.02);
  EXPECT_NEAR(std::log(ratio.high / ratio.low), 2 * 2.85 * std::hypot(sd0, sd1) / std::sqrt(3), 0.04);
  const Estimate& alone = *points[2].samples_to_loss;
  EXPECT_GT(std::log(alone.high / alone.low), 0.1) << "a single job is given the spread of the others";
  Compared one_job({{job(256, 1, "1"), job(256, 1.01, "1"), job(256, 1, "2")}, {job(1024, 1, "3")}}, 1);
  EXPECT_EQ(one_job.compare()[0].num_loss_values, 2u);
}

TEST(LossPoints, StayBoundedAndKeepTheMeans) {
  const record::RunData run = make_losses({.batch = 8, .num_samples = 4e6}, 3);
  const std::vector<LossPoint> points = loss_points(run);
  EXPECT_LT(points.size(), 1100u);
  double rows = 0, sum = 0;
  for (const LossPoint& point : points) rows += point.num_rows, sum += point.num_rows * point.loss;
  EXPECT_EQ(rows, static_cast<double>(run.steps.size()));
  EXPECT_NEAR(sum / rows, stats::mean(run.steps.loss), 1e-9);
  const std::vector<LossPoint> windows = window_means(points, 300);
  EXPECT_LE(windows.size(), 300u);
  double drawn = 0;
  for (const LossPoint& window : windows) drawn += window.num_rows;
  EXPECT_EQ(drawn, rows);
}

TEST(FirstCrossing, LiesOnTheMonotoneFit) {
  const std::vector<LossPoint> points = {{1, 5}, {2, 3}, {3, 4}, {4, 2}, {8, 1}};  // 3 and 4 become 3.5 at 2.5
  EXPECT_DOUBLE_EQ(first_crossing(points, 3.5), 2.5);
  EXPECT_NEAR(first_crossing(points, 1.5), std::sqrt(32), 1e-12);
  EXPECT_TRUE(std::isnan(first_crossing(points, 0.5)));
  EXPECT_TRUE(std::isnan(first_crossing(points, 6)));
}

}  // namespace
}  // namespace lockstep::analysis
