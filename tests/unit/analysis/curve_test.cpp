#include "analysis/curve.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analysis/cells.h"
#include "analysis/charts.h"
#include "analysis/charts_runs.h"
#include "analysis/document.h"
#include "analysis/group.h"
#include "analysis/settings.h"
#include "analysis/tables.h"
#include "analysis/tables_runs.h"
#include "analysis/text.h"
#include "core/strings.h"
#include "draw/render.h"
#include "stats/series_interval.h"
#include "stats/statistics.h"
#include "unit/analysis/synthetic_runs.h"

namespace lockstep::analysis {
namespace {

using tests::analysis_of;
using tests::make_run;
using tests::RunPlan;

bool has_flag(const Analysis& analysis, const std::string& code, const std::string& name = "") {
  return std::any_of(analysis.flags.begin(), analysis.flags.end(),
                     [&](const Flag& flag) { return flag.code == code && (name.empty() || flag.name == name); });
}

/// Three sizes with two jobs each and a known loss: 100, 105 and 112 ms a step.
std::vector<record::RunData> weak_sweep() {
  std::vector<record::RunData> runs;
  for (const auto& [nodes, ms] : {std::pair{1, 100.0}, {2, 105.0}, {4, 112.0}})
    for (int repeat = 0; repeat < 2; ++repeat)
      runs.push_back(make_run({.name = fmt::format("n{}_r{}", nodes, repeat),
                               .nodes = nodes,
                               .step_ms = ms * (1 + 0.0005 * repeat),
                               .job = fmt::format("slurm {}", 100 * nodes + repeat)}));
  return runs;
}

TEST(Curve, WeakScalingHasKnownRatesAndEfficiency) {
  const Analysis analysis = analysis_of(weak_sweep());
  ASSERT_EQ(analysis.curves.size(), 1u);
  const Curve& curve = analysis.curves[0];
  EXPECT_EQ(curve.kind, ScalingKind::kWeak) << curve.kind_reason;
  ASSERT_EQ(curve.points.size(), 3u);
  EXPECT_EQ(curve.base, 0u);
  const Point &one = curve.points[0], &four = curve.points[2];
  EXPECT_EQ(one.runs.size(), 2u);
  EXPECT_EQ(one.num_allocations, 2u);
  EXPECT_NEAR(one.samples_per_s.value, 32 / 0.1, 0.005 * 320);
  EXPECT_NEAR(four.samples_per_s.value, 128 / 0.112, 0.005 * 128 / 0.112);
  EXPECT_NEAR(four.efficiency.value, 100.0 / 112.0, 0.005);
  EXPECT_NEAR(four.speedup, 4 * 100.0 / 112.0, 0.02);
  EXPECT_NEAR(four.eff_batch, 100.0 / 112.0, 0.005);
  EXPECT_NEAR(four.eff_tput, 100.0 / 112.0, 0.005);
  EXPECT_TRUE(four.efficiency.has_range);
  EXPECT_LT(four.efficiency.low, four.efficiency.value);
  EXPECT_GT(four.efficiency.high, four.efficiency.value);
  EXPECT_DOUBLE_EQ(one.efficiency.value, 1.0);
  EXPECT_FALSE(one.efficiency.has_range) << "the base against itself has no uncertainty";
  // (1/S - 1/p) / (1 - 1/p) with S = p x 100/112.
  EXPECT_NEAR(four.karp_flatt, (1.12 / 4 - 0.25) / 0.75, 0.002);
  // 3 x 14.78 GFLOP x 320/4 per s / 989 TFLOP/s
  EXPECT_NEAR(one.mfu, 3 * 14.78e9 * 80 / 989e12, 1e-5);
  EXPECT_NEAR(four.node_hours_per_sample, 4 / 3600.0 / (128 / 0.112), 1e-8);
}

TEST(Curve, EveryQuantityOfTheMedianStepHasItsInterval) {
  const Analysis analysis = analysis_of(weak_sweep());
  const Curve& curve = analysis.curves.at(0);
  const Point& four = curve.points[2];
  const Estimate step = step_estimate(four), speedup = speedup_estimate(four),
                 mfu = proportional(four.mfu, four.samples_per_s);
  ASSERT_TRUE(step.has_range && speedup.has_range && mfu.has_range);
  EXPECT_DOUBLE_EQ(four.samples_per_s.low, 1e3 * 128 / step.high);
  EXPECT_NEAR(mfu.low / mfu.value, step.value / step.high, 1e-12);
  EXPECT_NEAR(speedup.high / speedup.value, four.efficiency.high / four.efficiency.value, 1e-12);
  const Estimate days = inverse(four.budget_days, four.samples_per_s);
  EXPECT_NEAR(days.high / days.value, four.samples_per_s.value / four.samples_per_s.low, 1e-12);
  for (const auto& charts :
       {throughput_charts({curve}), utilisation_charts({curve}), speedup_charts({curve}), time_charts({curve}, {})})
    for (const draw::Chart& chart : charts) {
      ASSERT_EQ(chart.series.at(0).low.size(), 3u) << chart.id;
      EXPECT_LT(chart.series[0].low[2], chart.series[0].y[2]) << chart.id;
      EXPECT_GT(chart.series[0].high[2], chart.series[0].y[2]) << chart.id;
    }
  const draw::Table table = interval_table(curve);
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.columns.at(4).key, "rate_per_s_low");
  EXPECT_DOUBLE_EQ(*table.rows[2].at(4).value, four.samples_per_s.low);
  std::string cells;
  const draw::Table scaling = scaling_table(curve);
  for (const draw::Cell& cell : scaling.rows.at(2)) cells += cell.text + "|";
  EXPECT_GE(core::split(cells, " +- ").size(), 6u) << cells;
}

TEST(Curve, LopsidedIntervalsShowBothEnds) {
  EXPECT_EQ(figure_cell(Estimate{60.76, 56.95, 79.02, true}).text, "60.76 (56.95 to 79.02)");
  EXPECT_EQ(fixed_cell(Estimate{3.5, 3.0, 3.8, true}, 2).text, "3.50 (3.00 to 3.80)");
  EXPECT_EQ(percent_cell(Estimate{0.9, 0.8, 0.93, true}).text, "90.0 (80.0 to 93.0)");
  EXPECT_EQ(figure_cell(Estimate{105.2, 104.8, 105.6, true}).text, "105.2 +- 0.40") << "arms alike";
  EXPECT_EQ(figure_cell(Estimate{100, 95, 105.9, true}).text, "100.0 +- 5.5") << "arms alike but for a fifth";
  EXPECT_EQ(figure_cell(Estimate{100, 99.99, 100.05, true}).text, "100.0 +- 0.030")
      << "both ends would print as the value";
  EXPECT_EQ(percent_cell(Estimate{0.0221, 0.02205, 0.0222, true}).text, "2.2 +- 0.008") << "not 2.2 (2.2 to 2.2)";
}

TEST(Curve, IntervalsSayHowTheyAreMade) {
  const Analysis analysis = analysis_of(weak_sweep());
  const std::string caption = interval_table(analysis.curves.at(0)).caption;
  EXPECT_NE(caption.find(stats::kMedianIntervalMethod), std::string::npos) << caption;
  EXPECT_EQ(caption.find("blocks of steps"), std::string::npos) << caption;
}

TEST(Curve, ProtocolsHaveOneRowForEachSize) {
  const Analysis analysis = analysis_of(weak_sweep(), {.protocols = {Protocol::kClap, Protocol::kNemotron}});
  const draw::Table table = protocol_table(analysis.curves.at(0), analysis.runs);
  ASSERT_EQ(table.rows.size(), 6u) << "two protocols at three sizes, whatever the number of runs";
  EXPECT_EQ(*table.rows[0].at(2).value, 2);
  EXPECT_NEAR(*table.rows[0].at(7).value, 100, 1);
}

/// The value in a column of a table's row; NaN for an empty cell.
double value_in(const draw::Table& table, const std::string& key, size_t row) {
  for (size_t i = 0; i < table.columns.size(); ++i)
    if (table.columns[i].key == key) return table.rows.at(row).at(i).value.value_or(std::nan(""));
  ADD_FAILURE() << "no column " << key;
  return std::nan("");
}

TEST(Curve, ProtocolsHaveTheirMfuAndEfficiencyBesideOurs) {
  std::vector<record::RunData> runs;
  for (const auto& [nodes, ms] : {std::pair{1, 100.0}, {4, 125.0}}) {
    runs.push_back(make_run(
        {.name = fmt::format("n{}", nodes), .nodes = nodes, .step_ms = ms, .job = fmt::format("slurm {}", nodes)}));
    runs.back().steps.step_ms.back() = nodes == 1 ? 80 : 160;  // the only step that this estimator looks at
    for (double& tflops : runs.back().steps.logged_tflops_per_device) tflops = nodes == 1 ? 400 : 300;
  }
  const Analysis analysis = analysis_of(runs, {.protocols = {Protocol::kNemotron, Protocol::kEpicureLanguage}});
  const draw::Table table = protocol_table(analysis.curves.at(0), analysis.runs);
  ASSERT_EQ(table.rows.size(), 4u);
  // 32 samples in 80 ms on 4 devices, 128 in 160 ms on 16.
  EXPECT_NEAR(value_in(table, "mfu_pct", 0), 100 * 3 * 14.78e9 * 400 / 4 / 989e12, 1e-9);
  EXPECT_NEAR(value_in(table, "mfu_pct", 2), 100 * 3 * 14.78e9 * 800 / 16 / 989e12, 1e-9);
  EXPECT_NEAR(value_in(table, "efficiency_pct", 0), 100, 1e-9);
  EXPECT_NEAR(value_in(table, "efficiency_pct", 2), 50, 1e-9);
  EXPECT_NEAR(value_in(table, "our_efficiency_pct", 2), 80, 1);
  EXPECT_NEAR(value_in(table, "our_mfu_pct", 0), 100 * 3 * 14.78e9 * 320 / 4 / 989e12, 0.001);
  EXPECT_NEAR(value_in(table, "mfu_pct", 3), 100 * 300 / 989.0, 1e-9) << "by the logged TFLOP/s";
  EXPECT_NEAR(value_in(table, "efficiency_pct", 3), 75, 1e-9);
  record::RunData without = make_run({.name = "no-flops"});
  without.setup.forward_gflops_per_sample.reset();
  const Analysis unknown = analysis_of({without}, {.protocols = {Protocol::kNemotron}});
  EXPECT_TRUE(std::isnan(value_in(protocol_table(unknown.curves.at(0), unknown.runs), "mfu_pct", 0)));
}

/// 1, 2 and 4 ranks of one machine.
std::vector<record::RunData> one_machine(bool is_on_cpu) {
  std::vector<record::RunData> runs;
  for (const auto& [ranks, ms] : {std::pair{1, 100.0}, {2, 120.0}, {4, 230.0}}) {
    runs.push_back(make_run({.name = fmt::format("d{}", ranks),
                             .devices_per_node = ranks,
                             .step_ms = ms,
                             .job = fmt::format("slurm {}", ranks)}));
    runs.back().setup.device = is_on_cpu ? "Some Processor 9000" : "NVIDIA GH200";
    runs.back().setup.is_on_cpu = is_on_cpu;
  }
  return runs;
}

TEST(Curve, RanksOnTheCoresOfOneMachineAreNoScaling) {
  const Analysis analysis = analysis_of(one_machine(true));
  ASSERT_EQ(analysis.curves.size(), 1u);
  const Curve& curve = analysis.curves[0];
  EXPECT_TRUE(curve.is_by_devices);
  const std::string limits = core::join(limits_of(curve), " "), said = core::join(conclusions_of(curve, {}), " ");
  EXPECT_NE(limits.find("shared the cores of one machine"), std::string::npos) << limits;
  EXPECT_NE(said.find("of shared cores."), std::string::npos) << said;
  EXPECT_NE(scaling_table(curve).caption.find("efficiency of shared cores"), std::string::npos);
  EXPECT_NE(efficiency_charts({curve}).at(0).caption.find("shared the cores"), std::string::npos);
  // Four ranks need as many node-hours as one machine does, not four.
  EXPECT_NEAR(curve.points[2].node_hours_per_sample, 1 / 3600.0 / (32 / 0.23), 1e-7);
  const Analysis gpus = analysis_of(one_machine(false));
  for (const std::string& caption :
       {efficiency_charts({curve}).at(0).caption, efficiency_table(curve).caption, scaling_table(curve).caption}) {
    EXPECT_NE(caption.find("ate per device"), std::string::npos) << caption;
    EXPECT_EQ(caption.find("ate per node"), std::string::npos) << caption;
  }
  EXPECT_NE(efficiency_table(analysis_of(weak_sweep()).curves.at(0)).caption.find("E = rate per node / rate per node"),
            std::string::npos);
  EXPECT_EQ(core::join(limits_of(gpus.curves.at(0)), " ").find("shared the cores"), std::string::npos);
  EXPECT_EQ(core::join(conclusions_of(gpus.curves.at(0), {}), " ").find("shared cores"), std::string::npos);
}

TEST(Curve, QuantilesCountEqualStepTimes) {
  // A log that rounds its times: 97 of 100 steps take 100 ms, the rest anything up to 300.
  record::RunData run = make_run({.name = "rounded", .ripple = 0, .num_steps = 620});
  for (size_t i = 20; i < run.steps.size(); ++i) {
    const size_t hundred = i / 100, place = i % 100;
    run.steps.step_ms[i] = place < 3 ? static_cast<double>(150 + hundred + place * 40) : 100.0;
  }
  const Analysis analysis = analysis_of({run}, {.warmup_steps = 20});
  const Point& point = analysis.curves.at(0).points.at(0);
  const auto first = run.steps.step_ms.begin() + 20;
  const std::vector<double> measured(first, run.steps.step_ms.end());
  EXPECT_DOUBLE_EQ(point.p50_ms, 100);
  EXPECT_DOUBLE_EQ(point.p95_ms, 100);
  EXPECT_DOUBLE_EQ(point.p99_ms, stats::percentile(measured, 99));
  EXPECT_GT(point.p99_ms, 150);
  const std::vector<draw::Chart> charts = cdf_charts(analysis.curves[0], analysis.runs);
  ASSERT_EQ(charts.size(), 1u);
  EXPECT_DOUBLE_EQ(charts[0].series.at(0).x.front(), 1.0);
  EXPECT_NEAR(charts[0].series[0].y.front(), 0.97, 0.005);
  EXPECT_DOUBLE_EQ(charts[0].series[0].y.back(), 1.0);
}

TEST(Curve, RunsWeighInQuantilesByTheirSteps) {
  // 900 steps of 100 ms and 60 of 200 ms: one step in sixteen is slow, not every second one.
  const std::vector<record::RunData> runs = {
      make_run({.name = "long", .ripple = 0, .num_steps = 920, .num_slow = 0}),
      make_run({.name = "short", .step_ms = 200, .ripple = 0, .num_steps = 80, .num_slow = 0})};
  const Analysis pooled = analysis_of(runs, {.warmup_steps = 20});
  const Point& point = pooled.curves.at(0).points.at(0);
  ASSERT_EQ(point.runs.size(), 2u);
  EXPECT_DOUBLE_EQ(point.p50_ms, 100);
  EXPECT_DOUBLE_EQ(stats::weighted_percentile(point.distribution, 93), 100);
  EXPECT_DOUBLE_EQ(point.p95_ms, 200);
}

TEST(Curve, P99NeedsAHundredSteps) {
  for (const size_t num_steps : {99u, 100u}) {
    const Analysis analysis = analysis_of({make_run({.num_steps = num_steps + 20})}, {.warmup_steps = 20});
    const Point& point = analysis.curves.at(0).points.at(0);
    EXPECT_EQ(std::isfinite(point.p99_ms), num_steps >= 100) << num_steps;
    EXPECT_EQ(cdf_charts(analysis.curves[0], analysis.runs).at(0).summary.find("p99") == std::string::npos,
              num_steps < 100);
  }
}

TEST(Curve, StrongScalingIsToldFromWeak) {
  std::vector<record::RunData> runs;
  for (const int nodes : {1, 2, 4})
    runs.push_back(make_run({.name = fmt::format("n{}", nodes),
                             .nodes = nodes,
                             .samples_per_device = 32 / nodes,
                             .step_ms = 100.0 / nodes + 5}));
  const Analysis analysis = analysis_of(runs);
  ASSERT_EQ(analysis.curves.size(), 1u);
  EXPECT_EQ(analysis.curves[0].kind, ScalingKind::kStrong);
  const Point& four = analysis.curves[0].points[2];
  EXPECT_NEAR(four.speedup, 105.0 / 30.0, 0.05);
  EXPECT_NEAR(four.efficiency.value, 105.0 / 30.0 / 4, 0.01);
  EXPECT_FALSE(std::isfinite(four.eff_batch)) << "batch times compare only at equal local batch";
  EXPECT_FALSE(four.eff_missing.at("eff_batch").empty());
}

TEST(Curve, AnEqualGlobalBatchIsStrongScalingWhateverTheAccumulation) {
  for (const char* model : {"gpt-small", "ViT-B-32"})
    for (const bool has_equal_micro : {true, false}) {
      std::vector<record::RunData> runs;
      for (const int nodes : {1, 2, 4}) {
        runs.push_back(make_run({.name = fmt::format("n{}", nodes),
                                 .nodes = nodes,
                                 .samples_per_device = 32 / nodes,
                                 .step_ms = 400.0 / nodes + 5,
                                 .model = model}));
        runs.back().setup.accum = has_equal_micro ? 8 / nodes : (nodes == 4 ? 8 : 4);
        runs.back().options = {{"micro_batch_size", std::to_string(32 / nodes / *runs.back().setup.accum)}};
      }
      const Analysis analysis = analysis_of(runs);
      ASSERT_EQ(analysis.curves.size(), 1u);
      const Curve& curve = analysis.curves[0];
      EXPECT_EQ(curve.kind, ScalingKind::kStrong) << curve.kind_reason;
      EXPECT_NE(curve.kind_reason.find(has_equal_micro ? "fewer micro-batches" : "the accumulation change"),
                std::string::npos)
          << curve.kind_reason;
      EXPECT_NEAR(curve.points[2].efficiency.value, 405.0 / (4 * 105), 0.01);
      EXPECT_FALSE(has_flag(analysis, "M05"));
    }
}

TEST(Curve, AccumulationThatChangesIsNotWeakScaling) {
  std::vector<record::RunData> runs;
  for (const int nodes : {1, 2}) {
    runs.push_back(make_run({.name = fmt::format("n{}", nodes), .nodes = nodes}));
    runs.back().setup.accum = 4 / nodes;
  }
  const Analysis analysis = analysis_of(runs);
  ASSERT_EQ(analysis.curves.size(), 1u);
  EXPECT_EQ(analysis.curves[0].kind, ScalingKind::kMixed);
  EXPECT_NE(analysis.curves[0].kind_reason.find("accumulation"), std::string::npos) << analysis.curves[0].kind_reason;
}

TEST(Curve, RepeatsFarApartAreToldInWordsAndGiveNoRecommendation) {
  std::vector<record::RunData> runs = weak_sweep();
  for (size_t i = 0; i < runs.size(); ++i)
    if (i % 2 == 1 && i > 1)
      for (double& ms : runs[i].steps.step_ms) ms *= 1.3;
  const Analysis analysis = analysis_of(runs);
  const Curve& curve = analysis.curves.at(0);
  const Point& two = curve.points.at(1);
  EXPECT_FALSE(two.efficiency.has_range || two.samples_per_s.has_range) << "two repeats with 30 % between them";
  EXPECT_NE(two.no_interval.find("2 repeats that differ by 30 %: no interval"), std::string::npos) << two.no_interval;
  const std::string said = core::join(conclusions_of(curve, {}), " ") + core::join(limits_of(curve), " ");
  EXPECT_NE(said.find("At 4 nodes: 2 repeats that differ by"), std::string::npos) << said;
  EXPECT_NE(draw::to_text(scaling_table(curve)).find(two.no_interval), std::string::npos);
  EXPECT_EQ(said.find("95 % interval"), std::string::npos) << said;
  EXPECT_EQ(recommended_point(curve, 0.7), &curve.points[0]) << "values without an interval prove nothing";
  Curve unbounded = curve;
  for (Point& point : unbounded.points) point.efficiency = {.value = 1};
  EXPECT_EQ(recommended_point(unbounded, 0.9), &unbounded.points[0]);
}

TEST(Curve, WhereOnlyTheBaseIsLeftNoSizeIsRecommended) {
  const auto said = [](double two_ms, double target) {
    std::vector<record::RunData> runs;
    for (const auto& [nodes, ms] : {std::pair{1, 100.0}, {2, two_ms}})
      for (int repeat = 0; repeat < 2; ++repeat)
        runs.push_back(make_run({.name = fmt::format("n{}_r{}", nodes, repeat),
                                 .nodes = nodes,
                                 .step_ms = ms,
                                 .job = fmt::format("{}{}", nodes, repeat)}));
    return core::join(conclusions_of(analysis_of(runs).curves.at(0), {.efficiency_target = target}), " ");
  };
  EXPECT_NE(said(150, 0.8).find("No larger size keeps 80 %; the base is 1 node."), std::string::npos) << said(150, 0.8);
  EXPECT_EQ(said(150, 0.8).find("judged by the value alone"), std::string::npos);
  EXPECT_NE(said(105, 0.8).find("The largest measured size that keeps 80 % is 2 nodes"), std::string::npos)
      << said(105, 0.8);
  EXPECT_NE(said(60, 0.8).find("No size is recommended: an efficiency of 166.7 %"), std::string::npos) << said(60, 0.8);
  EXPECT_EQ(said(60, 0.8).find("The largest measured size"), std::string::npos) << said(60, 0.8);
}

TEST(Curve, IntervalsAroundTheTargetDecideNothing) {
  std::vector<record::RunData> runs;
  for (const auto& [nodes, ms] : {std::pair{1, 100.0}, {2, 120.0}})
    for (int repeat = 0; repeat < 2; ++repeat)
      runs.push_back(make_run({.name = fmt::format("n{}_r{}", nodes, repeat),
                               .nodes = nodes,
                               .step_ms = ms + 20 * nodes * repeat,
                               .job = fmt::format("{}{}", nodes, repeat)}));
  const Analysis analysis = analysis_of(runs, {.efficiency_target = 0.9});
  const std::string text = core::join(conclusions_of(analysis.curves.at(0), analysis.options), " ");
  EXPECT_NE(text.find("Whether a larger size keeps 90 % cannot be decided from these runs: at 2 nodes it is"),
            std::string::npos)
      << text;
}

TEST(Curve, MeansFarFromMediansAreTold) {
  record::RunData run = make_run({.num_steps = 300});
  for (size_t i = 40; i < 300; i += 20) run.steps.step_ms[i] *= 10;
  const Curve curve = analysis_of({run}).curves.at(0);
  EXPECT_NE(core::join(limits_of(curve), " ").find("At 1 node the mean step, 1"), std::string::npos)
      << core::join(limits_of(curve), " ");
  EXPECT_EQ(core::join(limits_of(analysis_of({make_run({})}).curves.at(0)), " ").find("the mean step"),
            std::string::npos);
}

TEST(Curve, AnImpossibleEfficiencyDoubtsTheBase) {
  const Analysis analysis = analysis_of(
      {make_run({.name = "a", .nodes = 1, .step_ms = 130}), make_run({.name = "b", .nodes = 2, .step_ms = 104})});
  EXPECT_TRUE(has_flag(analysis, "M09"));
  EXPECT_TRUE(has_flag(analysis, "M14"));
  EXPECT_EQ(recommended_point(analysis.curves.at(0), 0.8), nullptr);
}

TEST(Curve, MixedWorkIsNotCalledWeak) {
  std::vector<record::RunData> runs;
  for (const auto& [nodes, local] : {std::pair{1, 8}, {2, 8}, {4, 12}})
    runs.push_back(make_run({.name = fmt::format("n{}", nodes), .nodes = nodes, .samples_per_device = local}));
  const Analysis analysis = analysis_of(runs);
  ASSERT_EQ(analysis.curves.size(), 1u);
  EXPECT_EQ(analysis.curves[0].kind, ScalingKind::kMixed);
  EXPECT_TRUE(has_flag(analysis, "M05"));
}

TEST(Curve, WhatFollowsFromOtherFactsIsNotAskedFor) {
  std::vector<record::RunData> runs;
  for (const int nodes : {1, 2}) {
    runs.push_back(make_run({.name = fmt::format("n{}", nodes), .nodes = nodes}));
    runs.back().setup.samples_per_device.reset();
    runs.back().setup.global_batch.reset();
  }
  const Analysis analysis = analysis_of(runs);
  EXPECT_EQ(analysis.curves.at(0).kind, ScalingKind::kWeak);
  EXPECT_EQ(core::join(analysis.missing, "\n").find("samples_per_device"), std::string::npos)
      << core::join(analysis.missing, "\n");
  for (record::RunData& run : runs) run.setup.devices.reset();
  EXPECT_NE(core::join(analysis_of(runs).missing, "\n").find("samples_per_device"), std::string::npos);
}

TEST(Curve, DevicesThatShareASampleScaleWeaklyWhereTheirShareIsTheSame) {
  std::vector<record::RunData> runs;
  for (const int nodes : {1, 2, 4}) {
    runs.push_back(make_run({.name = fmt::format("n{}", nodes), .nodes = nodes}));
    record::RunSetup& setup = runs.back().setup;
    setup.samples_per_device.reset();
    setup.global_batch = *setup.devices / 2;
    for (double& samples : runs.back().steps.samples) samples = static_cast<double>(*setup.global_batch);
  }
  const Curve weak = analysis_of(runs).curves.at(0);
  EXPECT_EQ(weak.kind, ScalingKind::kWeak) << weak.kind_reason;
  EXPECT_EQ(weak.kind_reason,
            "the share of a device in the batch is 0.5 at every size, the global batch grows with it");
  runs.back().setup.global_batch = *runs.back().setup.global_batch + 1;
  EXPECT_NE(analysis_of(runs).curves.at(0).kind, ScalingKind::kWeak) << "another share at the largest size";
}

TEST(Curve, AnUnknownLocalBatchIsNotSaidToDiffer) {
  std::vector<record::RunData> runs;
  for (const int nodes : {1, 2, 4}) {
    runs.push_back(make_run({.name = fmt::format("n{}", nodes), .nodes = nodes}));
    runs.back().setup.devices.reset();
    runs.back().setup.samples_per_device.reset();
  }
  const Analysis of_nodes = analysis_of(runs);
  EXPECT_EQ(of_nodes.curves.at(0).kind, ScalingKind::kWeak);
  EXPECT_EQ(of_nodes.curves.at(0).kind_reason,
            "the batch of a node is 32 at every size, the global batch grows with it");
  runs.back().setup.global_batch = 96;
  const Analysis analysis = analysis_of(runs);
  ASSERT_EQ(analysis.curves.size(), 1u);
  const Curve& curve = analysis.curves[0];
  ASSERT_EQ(curve.points.size(), 3u);
  EXPECT_EQ(curve.kind, ScalingKind::kUnknown);
  EXPECT_EQ(curve.kind_reason, "the global batch changes, the local batch is not known at every size");
  EXPECT_FALSE(has_flag(analysis, "M05")) << "nothing is known to change";
  std::string said;
  for (const auto& texts : {conclusions_of(curve, analysis.options), limits_of(curve)})
    for (const std::string& text : texts) said += text + "\n";
  EXPECT_EQ(said.find("neither"), std::string::npos) << said;
  EXPECT_NE(said.find("is not known"), std::string::npos) << said;
  EXPECT_EQ(said.find("keeps"), std::string::npos) << "no size is recommended: " << said;
}

TEST(Curve, PhasesAreSharesThatAddUpToAHundredLargestFirst) {
  std::vector<record::RunData> runs;
  for (const int nodes : {1, 2}) {
    runs.push_back(make_run({.name = fmt::format("n{}", nodes), .nodes = nodes}));
    record::RunData& run = runs.back();
    const double comm = nodes == 1 ? 0 : 50;
    for (size_t i = 0; i < run.steps.size(); ++i)
      for (const auto& [phase, ms] : {std::pair{"forward", 20.0},
                                      {"backward", 40.0},
                                      {"exposed_comm", comm},
                                      {"other", 60.0},
                                      {"telemetry", 0.0}})
        run.steps.phases_ms[phase].push_back(ms);
  }
  const Analysis analysis = analysis_of(runs);
  ASSERT_EQ(analysis.curves.size(), 1u);
  const draw::Table table = phase_table(analysis.curves[0]);
  std::vector<std::string> names;
  for (const auto& row : table.rows) names.push_back(row[0].text);
  EXPECT_EQ(names, (std::vector<std::string>{"exposed_comm", "backward", "forward", "other", "all",
                                             "step, more than at the base"}))
      << "the order of the largest size, other last, nothing without time";
  ASSERT_EQ(table.columns.size(), 5u);
  for (const size_t column : {size_t{1}, size_t{2}}) {
    double sum = 0;
    for (size_t i = 0; i + 2 < table.rows.size(); ++i) sum += std::stod(table.rows[i][column].text);
    EXPECT_NEAR(sum, 100, 1e-9) << "as printed";
    EXPECT_EQ(table.rows[4][column].text, "100.0");
  }
  EXPECT_EQ(table.rows[0][1].text, "0.0");
  EXPECT_EQ(table.rows[2][1].text, "16.7");  // 20 of 120
  EXPECT_EQ(table.rows[1][2].text, "23.5");  // 40 of 170
  EXPECT_EQ(table.rows[4][4].text, "170");
}

TEST(Curve, TheSerialFractionIsALineOfTheEfficiencyPlot) {
  std::vector<record::RunData> runs;
  for (const int nodes : {1, 2, 4, 8})
    runs.push_back(make_run(
        {.name = fmt::format("n{}", nodes), .nodes = nodes, .step_ms = 100 * (1 + 0.02 * (nodes - 1)), .ripple = 0}));
  const Analysis analysis = analysis_of(runs);
  ASSERT_EQ(analysis.curves.size(), 1u);
  const std::vector<draw::Chart> charts = efficiency_charts(analysis.curves);
  ASSERT_EQ(charts.size(), 1u);
  const auto line = std::find_if(charts[0].series.begin(), charts[0].series.end(),
                                 [](const draw::Series& one) { return one.name == "2.0 % serial part"; });
  ASSERT_NE(line, charts[0].series.end()) << charts[0].caption;
  const draw::Series& measured = charts[0].series.front();
  ASSERT_EQ(line->y.size(), measured.y.size());
  for (size_t i = 0; i < line->y.size(); ++i)
    EXPECT_NEAR(line->y[i], measured.y[i], 0.01) << "a constant fraction lies on the measured points";
  EXPECT_LT(line->y.back(), 90);
}

TEST(Curve, NoConstantSerialFractionIsDrawnFromOneSizeOrAboveAll) {
  const auto has_line = [](const std::vector<std::pair<int, double>>& sizes) {
    std::vector<record::RunData> runs;
    for (const auto& [nodes, ms] : sizes)
      runs.push_back(make_run({.name = fmt::format("n{}", nodes), .nodes = nodes, .step_ms = ms}));
    const draw::Chart chart = efficiency_charts(analysis_of(runs).curves).at(0);
    return std::any_of(chart.series.begin(), chart.series.end(),
                       [](const draw::Series& one) { return one.name.find("serial") != std::string::npos; }) ||
           chart.caption.find("serial") != std::string::npos;
  };
  EXPECT_TRUE(has_line({{1, 100}, {2, 110}, {4, 130}}));
  EXPECT_FALSE(has_line({{1, 100}, {2, 110}})) << "one size beside the base proves nothing constant";
  EXPECT_FALSE(has_line({{1, 100}, {2, 260}, {4, 560}})) << "slower than the base: more than all of the work";
}

TEST(Curve, TheKneeIsWhereTheEfficiencyBeginsToFall) {
  const auto curve_of = [](const std::vector<double>& step_ms) {
    std::vector<record::RunData> runs;
    int nodes = 1;
    for (const double ms : step_ms) {
      runs.push_back(make_run({.name = fmt::format("n{}", nodes), .nodes = nodes, .step_ms = ms, .ripple = 0}));
      nodes *= 2;
    }
    return analysis_of(runs);
  };
  const Analysis bent = curve_of({100, 101, 102, 103, 140, 200});
  ASSERT_EQ(bent.curves.size(), 1u);
  const auto knee = knee_of(bent.curves[0]);
  ASSERT_TRUE(knee);
  EXPECT_EQ(bent.curves[0].points[*knee].size, 8);
  const std::vector<draw::Chart> charts = efficiency_charts(bent.curves);
  ASSERT_EQ(charts.size(), 1u);
  EXPECT_EQ(charts[0].series.front().labels, (std::vector<std::string>{"", "", "", "knee", "", ""}));
  EXPECT_NE(charts[0].caption.find("8 nodes"), std::string::npos) << charts[0].caption;
  EXPECT_FALSE(knee_of(curve_of({100, 102, 106, 114, 130, 162, 226}).curves[0]))
      << "a constant serial fraction has no knee";
  EXPECT_FALSE(knee_of(curve_of({100, 100.1, 100.2, 100.1}).curves[0])) << "nothing is lost";
  EXPECT_FALSE(knee_of(curve_of({100, 101, 150}).curves[0])) << "too few sizes";
  EXPECT_FALSE(knee_of(curve_of({100, 150, 160, 165}).curves[0])) << "falls at once and then no more";
}

/// Sizes that double from `first`, with the efficiency of a constant serial fraction up to `sound` sizes and, beyond,
/// half as much again lost at each.
Curve amdahl_curve(double fraction, int64_t first, size_t num_sizes, size_t num_sound, double noise) {
  Curve curve;
  curve.base = 0;
  double further = 1;
  for (size_t i = 0; i < num_sizes; ++i) {
    if (i >= num_sound) further *= 0.7;
    Point point;
    point.size = first << i;
    const double growth = static_cast<double>(point.size) / static_cast<double>(first) - 1;
    point.efficiency.value =
        further / (1 + fraction * growth) * (i == 0 ? 1 : 1 + noise * tests::ripple_at(7 * i + num_sizes));
    curve.points.push_back(point);
  }
  return curve;
}

TEST(Curve, AConstantSerialFractionHasNoKneeWhateverItsSizeAndRange) {
  size_t num_losing = 0;
  for (const double fraction : {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3})
    for (const int64_t first : {1, 2, 8})
      for (size_t num_sizes = 4; num_sizes <= 13; ++num_sizes)
        for (const double noise : {0.0, 0.005}) {
          const Curve curve = amdahl_curve(fraction, first, num_sizes, num_sizes, noise);
          num_losing += curve.points.back().efficiency.value < 0.95;
          EXPECT_FALSE(knee_of(curve)) << "fraction " << fraction << ", first " << first << ", sizes " << num_sizes
                                       << ", noise " << noise;
        }
  EXPECT_GT(num_losing, 300u) << "curves that lose nothing prove nothing";
  for (const double fraction : {0.0005, 0.002, 0.005}) {
    const auto knee = knee_of(amdahl_curve(fraction, 1, 8, 6, 0));
    ASSERT_TRUE(knee) << fraction;
    EXPECT_EQ(*knee, 5u) << fraction << ": the last sound size";
  }
}

TEST(Curve, PrecisionThatChangesWithTheSizeIsNamed) {
  std::vector<record::RunData> runs;
  for (const auto& [nodes, precision] : {std::pair{1, "fp32"}, {2, "bf16"}})
    runs.push_back(make_run({.name = fmt::format("n{}", nodes), .nodes = nodes, .precision = precision}));
  const Analysis analysis = analysis_of(runs);
  ASSERT_EQ(analysis.curves.size(), 1u);
  EXPECT_EQ(analysis.curves[0].kind, ScalingKind::kMixed);
  EXPECT_NE(analysis.curves[0].kind_reason.find("precision (bf16, fp32)"), std::string::npos)
      << analysis.curves[0].kind_reason;
}

TEST(Curve, TwoPrecisionsAtEverySizeAreTwoCurves) {
  std::vector<record::RunData> runs;
  for (const int nodes : {1, 2})
    for (const char* precision : {"fp32", "bf16"})
      runs.push_back(
          make_run({.name = fmt::format("n{}{}", nodes, precision), .nodes = nodes, .precision = precision}));
  const Analysis analysis = analysis_of(runs);
  ASSERT_EQ(analysis.curves.size(), 2u);
  for (const Curve& curve : analysis.curves) EXPECT_EQ(curve.kind, ScalingKind::kWeak);
  EXPECT_NE(analysis.curves[0].name, analysis.curves[1].name);
}

TEST(Curve, AGridOfBatchesGivesOneWeakCurveForEachLocalBatch) {
  std::vector<record::RunData> runs;
  for (const int nodes : {1, 2, 4})
    for (const int local : {8, 16})
      runs.push_back(
          make_run({.name = fmt::format("n{}b{}", nodes, local), .nodes = nodes, .samples_per_device = local}));
  const Analysis analysis = analysis_of(runs);
  size_t num_weak = 0;
  for (const Curve& curve : analysis.curves)
    num_weak += curve.kind == ScalingKind::kWeak && curve.points.size() == 3 ? 1 : 0;
  EXPECT_EQ(num_weak, 2u);
  EXPECT_EQ(analysis.curves.size(), 2u);
}

TEST(Curve, RanksOnOneMachineAreSizedByDevices) {
  std::vector<record::RunData> runs;
  for (const int devices : {1, 2})
    runs.push_back(make_run({.name = fmt::format("d{}", devices),
                             .nodes = 1,
                             .devices_per_node = devices,
                             .step_ms = 100.0 + 10 * devices}));
  const Analysis analysis = analysis_of(runs);
  ASSERT_EQ(analysis.curves.size(), 1u);
  EXPECT_TRUE(analysis.curves[0].is_by_devices);
  EXPECT_EQ(analysis.curves[0].points[1].size, 2);
  EXPECT_NEAR(analysis.curves[0].points[1].efficiency.value, 110.0 / 120.0, 0.005);
}

TEST(Curve, SweepAxesTellConfigurationsApartAndRepeatsDoNot) {
  std::vector<record::RunData> runs;
  for (const int nodes : {1, 2})
    for (const char* buffer : {"4", "16"})
      for (const char* repeat : {"1", "2"}) {
        record::RunData run = make_run({.name = fmt::format("n{}_{}_{}", nodes, buffer, repeat),
                                        .nodes = nodes,
                                        .job = fmt::format("{}{}{}", nodes, buffer, repeat)});
        run.setup.tags = {{"bucket_mb", buffer}, {"repeat", repeat}};
        runs.push_back(run);
      }
  const Analysis analysis = analysis_of(runs);
  ASSERT_EQ(analysis.curves.size(), 2u);
  for (const Curve& curve : analysis.curves)
    for (const Point& point : curve.points) EXPECT_EQ(point.runs.size(), 2u);
}

TEST(Curve, EpochEfficiencyNeedsEpochsOfOneDataSet) {
  std::vector<record::RunData> runs;
  for (const int nodes : {1, 2}) {
    record::RunData run = make_run({.name = fmt::format("n{}", nodes),
                                    .nodes = nodes,
                                    .step_ms = 100,
                                    .ripple = 0.001,
                                    .num_steps = static_cast<size_t>(800 / nodes),
                                    .num_slow = 0});
    const size_t per_epoch = run.steps.size() / 4;
    double pause_s = 0;
    for (size_t i = 0; i < run.steps.size(); ++i) {
      run.steps.epoch[i] = static_cast<int32_t>(i / per_epoch);
      if (i > 0 && i % per_epoch == 0) pause_s += 2.0;  // validation takes as long at each size
      run.steps.time_s[i] += pause_s;
    }
    runs.push_back(run);
  }
  const Analysis analysis = analysis_of(runs);
  const Point& two = analysis.curves.at(0).points.at(1);
  EXPECT_NEAR(two.epoch_s, 10 + 2, 0.1);
  EXPECT_NEAR(two.epoch_train_s, 10, 0.1);
  EXPECT_NEAR(two.eff_train, 1.0, 0.01);
  EXPECT_NEAR(two.eff_epoch, 22.0 / (2 * 12.0), 0.01);
  EXPECT_NEAR(two.eff_batch, 1.0, 0.01);
  EXPECT_TRUE(has_flag(analysis, "M11")) << "pauses between steps are billed";
}

TEST(Curve, SumsOfEpochsTellTheTrainingPartWithoutTimesOfDay) {
  std::vector<record::RunData> runs;
  for (const int nodes : {1, 2}) {
    record::RunData run = make_run({.name = fmt::format("n{}", nodes), .nodes = nodes});
    for (double& time_s : run.steps.time_s) time_s = record::kUnknown;
    for (int epoch = 0; epoch < 4; ++epoch)
      run.epoch_sums[epoch] = {.seconds = epoch == 0 ? 500.0 : 60.0 / nodes + 2, .num_steps = 800 / nodes};
    runs.push_back(run);
  }
  const Analysis analysis = analysis_of(runs);
  const Point& two = analysis.curves.at(0).points.at(1);
  EXPECT_DOUBLE_EQ(two.epoch_train_s, 32) << "without the first epoch";
  EXPECT_DOUBLE_EQ(two.eff_train, 62.0 / (2 * 32.0));
  EXPECT_TRUE(std::isnan(two.eff_epoch)) << "nobody knows what lies between epochs";
  EXPECT_NE(two.eff_missing.at("eff_epoch").find("times of day"), std::string::npos);
  EXPECT_FALSE(two.eff_missing.contains("eff_train"));
  std::vector<record::RunData> without_batch = runs;  // as logs are read whose batch nobody gives
  for (record::RunData& run : without_batch) {
    run.setup.global_batch.reset();
    run.setup.samples_per_device.reset();
    for (double& samples : run.steps.samples) samples = record::kUnknown;
  }
  const Analysis unknown = analysis_of(without_batch);
  EXPECT_DOUBLE_EQ(unknown.curves.at(0).points.at(1).eff_train, 62.0 / (2 * 32.0));
  runs[1].epoch_sums[1].num_steps = runs[1].epoch_sums[2].num_steps = runs[1].epoch_sums[3].num_steps = 500;
  const Analysis other = analysis_of(runs);
  EXPECT_NE(other.curves.at(0).points.at(1).eff_missing.at("eff_train").find("epochs differ"), std::string::npos);
}

TEST(Curve, AnotherBaseCanBeChosenAndAMissingOneIsExplained) {
  const Analysis two = analysis_of(weak_sweep(), {.base_nodes = 2});
  EXPECT_NEAR(two.curves[0].points[2].efficiency.value, 105.0 / 112.0, 0.005);
  EXPECT_GT(two.curves[0].points[0].efficiency.value, 1.0);
  const Analysis none = analysis_of(weak_sweep(), {.base_nodes = 8});
  EXPECT_FALSE(none.curves[0].base);
  EXPECT_NE(none.curves[0].base_reason.find("8 nodes"), std::string::npos);
  EXPECT_FALSE(std::isfinite(none.curves[0].points[2].efficiency.value));
  EXPECT_TRUE(std::isfinite(none.curves[0].points[2].samples_per_s.value)) << "rates stand without a base";
  EXPECT_TRUE(has_flag(none, "M14"));
}

TEST(Curve, ProfiledRunsAreNeverMixedIn) {
  std::vector<record::RunData> runs = weak_sweep();
  record::RunData profiled = make_run({.name = "profiled", .nodes = 4, .step_ms = 300});
  profiled.setup.is_profiled = true;
  runs.push_back(profiled);
  const Analysis analysis = analysis_of(runs);
  EXPECT_EQ(analysis.curves[0].points[2].runs.size(), 2u);
  EXPECT_NEAR(analysis.curves[0].points[2].estimate.median_ms, 112, 1);
  ASSERT_EQ(analysis.left_out.size(), 1u);
  EXPECT_EQ(analysis.runs[analysis.left_out[0].run].name, "profiled");
  EXPECT_TRUE(has_flag(analysis, "M16"));
}

TEST(Curve, FailedRunsGiveWayToWholeOnesAndAreTold) {
  std::vector<record::RunData> runs = weak_sweep();
  record::RunData failed = make_run({.name = "failed", .nodes = 4, .step_ms = 500, .num_steps = 60});
  failed.state = "failed";
  failed.message = "out of memory on rank 3";
  runs.push_back(failed);
  record::RunData empty = make_run({.name = "empty", .nodes = 8, .num_steps = 0});
  empty.state = "died";
  runs.push_back(empty);
  record::RunData only = make_run({.name = "only", .nodes = 16, .num_steps = 80});
  only.state = "failed";
  runs.push_back(only);
  const Analysis analysis = analysis_of(runs);
  std::map<std::string, std::string> reasons;
  for (const LeftOut& left : analysis.left_out) reasons[analysis.runs[left.run].name] = left.reason;
  EXPECT_NE(reasons["failed"].find("out of memory on rank 3"), std::string::npos);
  EXPECT_NE(reasons["empty"].find("died"), std::string::npos);
  EXPECT_FALSE(reasons.contains("only")) << "the only run of a size stays, flagged";
  EXPECT_TRUE(has_flag(analysis, "M17", "failed-run"));
  EXPECT_EQ(analysis.curves[0].points.back().nodes, 16);
}

TEST(Curve, AStoppedRunIsToldWithWhatWasPlanned) {
  std::vector<record::RunData> runs = {make_run({.name = "a", .num_steps = 110, .job = "1"}),
                                       make_run({.name = "b", .num_steps = 120, .job = "2"})};
  const auto limits = [&] { return core::join(limits_of(analysis_of(runs).curves.at(0)), "\n"); };
  EXPECT_EQ(limits().find("stopped"), std::string::npos) << limits();
  runs[0].state = runs[1].state = "stopped";
  runs[0].options = runs[1].options = {{"max_steps", "400"}};
  EXPECT_NE(limits().find("a: stopped after 110 of 400 steps; b: stopped after 120 of 400 steps."), std::string::npos)
      << limits();
  runs[1].options.clear();
  runs[1].message = "time limit";
  const std::string text = stopped_text(summarise_run(runs[1], {}));
  EXPECT_EQ(text, "b: stopped after 120 steps (time limit)");
}

TEST(Curve, ARunOfUnknownSizeStandsAlone) {
  std::vector<record::RunData> runs = weak_sweep();
  record::RunData unsized = make_run({.name = "unsized"});
  unsized.setup.nodes.reset();
  unsized.setup.devices.reset();
  runs.push_back(unsized);
  const Analysis analysis = analysis_of(runs);
  ASSERT_EQ(analysis.curves.size(), 2u);
  EXPECT_FALSE(analysis.missing.empty());
  EXPECT_NE(analysis.missing[0].find("devices"), std::string::npos) << analysis.missing[0];
}

TEST(Curve, ManyLogsOfOneReasonShareALineAndMissingFactsAreAList) {
  std::vector<record::RunData> runs;
  for (int i = 0; i < 22; ++i) {
    runs.push_back(make_run({.name = fmt::format("log{}", i), .step_ms = 100.0 + i}));
    runs.back().setup.nodes.reset();
    runs.back().setup.devices.reset();
    runs.back().problems = {"--meta 'x' does not match its path"};
  }
  const Analysis analysis = analysis_of(runs);
  ASSERT_EQ(analysis.left_out.size(), 22u);
  const std::vector<std::string> lines = left_out_lines(analysis);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].find("log0 and 21 more: the source does not tell how many nodes"), 0u) << lines[0];
  ASSERT_EQ(source_problems(analysis.runs).size(), 1u);
  ASSERT_GE(analysis.missing.size(), 2u);
  std::vector<std::string> items;
  const draw::Document document = make_document(analysis);
  for (const draw::Block& block : document.sections.at(0).blocks)
    if (const auto* paragraph = std::get_if<draw::Paragraph>(&block);
        paragraph != nullptr && paragraph->kind == draw::Paragraph::Kind::kList)
      items.push_back(paragraph->text);
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0], core::join(analysis.missing, "\n"));
  const draw::Document page{
      .title = "t",
      .subtitle = {},
      .sections = {{.id = "s", .title = "s", .blocks = {draw::Paragraph{"one\ntwo", draw::Paragraph::Kind::kList}}}}};
  EXPECT_NE(draw::to_html(page).find("<li>one</li>\n<li>two</li>"), std::string::npos);
  EXPECT_NE(draw::to_markdown(page).find("- one\n- two\n"), std::string::npos) << draw::to_markdown(page);
}

TEST(Curve, NamesTellTheProgramTheDeviceAndThePrecisionInOneForm) {
  record::RunData half = make_run({.name = "half"}), full = half, processor = half, foreign = half;
  full.name = "full", full.setup.precision = "fp32";
  processor.name = "processor", processor.setup.device = "AMD EPYC 7742", processor.setup.is_on_cpu = true;
  foreign.name = "foreign", foreign.format = "openclip";
  std::vector<std::string> names;
  for (const Curve& curve : analysis_of({half, full, processor, foreign}).curves) names.push_back(curve.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"ViT-B-32, bf16, lockstep, AMD EPYC 7742",
                                             "ViT-B-32, bf16, lockstep, NVIDIA GH200", "ViT-B-32, bf16, openclip",
                                             "ViT-B-32, fp32"}));
}

TEST(Curve, WithoutAModelACurveIsNotNamedAfterOneOfItsLogs) {
  std::vector<record::RunData> runs = weak_sweep();
  for (record::RunData& run : runs) {
    run.setup.task.clear();
    run.setup.model.clear();
    run.setup.precision.clear();
  }
  EXPECT_EQ(analysis_of(runs).curves.at(0).name, "lockstep runs (model unknown)");
  EXPECT_EQ(analysis_of({runs[0]}).curves.at(0).name, "n1_r0");
}

TEST(Curve, DeviceHoursStandBesideNodeHours) {
  std::vector<record::RunData> runs = {make_run({.name = "one"}), make_run({.name = "two", .nodes = 2})};
  const auto hours_of = [](const Analysis& analysis, const std::string& title) {
    const draw::Table table = cost_table(analysis.curves.at(0), analysis.options);
    for (size_t i = 0; i < table.columns.size(); ++i)
      if (table.columns[i].title == title) return *table.rows.at(1).at(i).value;
    return std::nan("");
  };
  const Analysis gpus = analysis_of(runs);
  EXPECT_NEAR(hours_of(gpus, "GPU-hours") / hours_of(gpus, "node-hours"), 4, 1e-9);
  for (record::RunData& run : runs) run.setup.is_on_cpu = true;
  EXPECT_TRUE(std::isnan(hours_of(analysis_of(runs), "core-hours"))) << "threads are not known";
  for (record::RunData& run : runs) run.setup.threads_per_device = 16;
  const Analysis cores = analysis_of(runs);
  EXPECT_NEAR(hours_of(cores, "core-hours") / hours_of(cores, "node-hours"), 64, 1e-9);
}

TEST(Curve, NumbersReadWell) {
  EXPECT_EQ(fixed_text(-0.001, 2), "0.00");
  EXPECT_EQ(fixed_text(-0.01, 2), "-0.01");
  EXPECT_EQ(fixed_text(-12345.6, 1), "-12,345.6");
  EXPECT_EQ(setting_text("0.0014142135623730952"), "0.00141421");
  for (const char* value : {"0.001", "16384", "20260131123456", "2.9.1+cu128.abc", ""})
    EXPECT_EQ(setting_text(value), value);
  const Analysis analysis = analysis_of({make_run({})});
  EXPECT_EQ(make_document(analysis).subtitle.find("1 run, 1 size in 1 configuration, "), 0u)
      << make_document(analysis).subtitle;
  EXPECT_NE(conclusions_of(analysis.curves.at(0), {}).at(0).find("in 1 run)"), std::string::npos)
      << conclusions_of(analysis.curves.at(0), {}).at(0);
}

TEST(Curve, IntervalsOfALogAreNotCalledSteps) {
  record::RunData log = make_run({.name = "log", .num_steps = 120, .num_slow = 0});
  log.format = "openclip";
  for (size_t i = 0; i < log.steps.size(); ++i) {
    log.steps.num_steps[i] = 100;
    log.steps.step[i] = static_cast<int64_t>(100 * i + 99);
  }
  const Analysis analysis = analysis_of({log}, {.warmup_steps = 20});
  const Point& point = analysis.curves.at(0).points.at(0);
  EXPECT_EQ(point.estimate.num_steps, 100u);
  EXPECT_EQ(point.num_steps, 10000);
  const std::string said = conclusions_of(analysis.curves[0], analysis.options).at(0);
  EXPECT_NE(said.find("median of 100 log intervals of about 100 steps each"), std::string::npos) << said;
}

TEST(Curve, EnergyOfGpusThatTheRunDidNotUseIsSaid) {
  record::RunData run = make_run({.name = "part", .nodes = 1, .devices_per_node = 2});
  for (int64_t step : {99, 199})
    run.system.push_back(
        {.attempt = 1,
         .step = step,
         .num_steps = 100,
         .host = "a",
         .received_bytes = {},
         .sent_bytes = {},
         .energy_j = {{"nvml-0", 100}, {"nvml-1", 100}, {"nvml-2", 20}, {"nvml-3", 20}, {"rapl-package-0", 50}}});
  const auto energy = energy_use(run, 0, 16);
  ASSERT_TRUE(energy);
  EXPECT_DOUBLE_EQ(energy->joules, 2 * 290);
  EXPECT_EQ(energy->scope, "nvml (4 GPUs, of which the run used 2: the energy of all is counted), rapl-package");
  run.setup.devices = 4;
  EXPECT_EQ(energy_use(run, 0, 16)->scope, "nvml, rapl-package");
}

TEST(Curve, NothingUsableStillMakesAPage) {
  record::RunData empty = make_run({.name = "empty", .num_steps = 0});
  const Analysis analysis = analysis_of({empty});
  EXPECT_TRUE(analysis.curves.empty());
  const draw::Document document = make_document(analysis);
  ASSERT_FALSE(document.sections.empty());
  EXPECT_NE(std::get<draw::Paragraph>(document.sections[0].blocks[0]).text.find("No run"), std::string::npos);
}

TEST(Curve, TablesHaveACellForEveryColumn) {
  const Analysis analysis = analysis_of(weak_sweep());
  size_t num_tables = 0;
  for (const draw::Section& section : make_document(analysis).sections)
    for (const draw::Block& block : section.blocks)
      if (const auto* table = std::get_if<draw::Table>(&block)) {
        ++num_tables;
        for (const auto& row : table->rows) EXPECT_EQ(row.size(), table->columns.size()) << table->id;
      }
  EXPECT_GE(num_tables, 6u);
}

}  // namespace
}  // namespace lockstep::analysis
