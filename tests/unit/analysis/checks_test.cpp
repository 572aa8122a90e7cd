#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <regex>
#include <set>

#include "analysis/charts_runs.h"
#include "analysis/checks.h"
#include "analysis/curve.h"
#include "analysis/document.h"
#include "analysis/summary.h"
#include "analysis/tables_runs.h"
#include "analysis/text.h"
#include "core/files.h"
#include "core/strings.h"
#include "stats/series_interval.h"
#include "stats/series_warmup.h"
#include "unit/analysis/synthetic_runs.h"

namespace lockstep::analysis {
namespace {

using tests::analysis_of;
using tests::make_run;

size_t count_flags(const Analysis& analysis, const std::string& code) {
  return static_cast<size_t>(
      std::count_if(analysis.flags.begin(), analysis.flags.end(), [&](const Flag& flag) { return flag.code == code; }));
}

/// Two quiet jobs at one size: the control of every case here.
std::vector<record::RunData> quiet_pair() {
  return {make_run({.name = "a", .job = "slurm 1"}), make_run({.name = "b", .step_ms = 100.02, .job = "slurm 2"})};
}

TEST(Checks, AQuietPairOfJobsFiresNothing) {
  const Analysis analysis = analysis_of(quiet_pair());
  for (const Flag& flag : analysis.flags) ADD_FAILURE() << flag.code << " " << flag.sentence;
}

TEST(Checks, EveryFlagThatTheSourcesRaiseIsInTheListOfChecks) {
  std::set<std::string> listed, raised;
  for (const CheckInfo& info : known_checks())
    for (const std::string& name : core::split(std::string(info.names), ", "))
      listed.insert(fmt::format("{} {}", info.code, name));
  const std::regex flag(R"re("([A-Z][0-9]{2})",\s*"([a-z-]+)",\s*[^"\s])re");
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "src/analysis")) {
    const std::string text = core::read_file(entry.path().string());
    for (std::sregex_iterator found(text.begin(), text.end(), flag), end; found != end; ++found)
      raised.insert((*found)[1].str() + " " + (*found)[2].str());
  }
  EXPECT_GT(raised.size(), 15u);
  for (const std::string& name : raised) EXPECT_TRUE(listed.contains(name)) << name << " has no row in kChecks";
}

TEST(Checks, FewStepsAndASingleRun) {
  const Analysis analysis = analysis_of({make_run({.num_steps = 25, .num_slow = 2})});
  EXPECT_EQ(count_flags(analysis, "M01"), 1u);
  EXPECT_EQ(count_flags(analysis, "M03"), 1u);
  EXPECT_EQ(count_flags(analysis, "M04"), 1u);
}

TEST(Checks, RepeatsInOneJobAreOneAllocation) {
  std::vector<record::RunData> runs = quiet_pair();
  for (record::RunData& run : runs) run.allocation = "slurm 1";
  EXPECT_EQ(count_flags(analysis_of(runs), "M04"), 1u);
  for (record::RunData& run : runs) run.allocation.clear();
  const Analysis unnamed = analysis_of(runs);
  EXPECT_FALSE(unnamed.curves.at(0).points.at(0).num_allocations);
  EXPECT_EQ(count_flags(unnamed, "M04"), 0u) << "these are no single run";
  ASSERT_EQ(count_flags(unnamed, "M19"), 1u);
  for (const Flag& flag : unnamed.flags)
    if (flag.code == "M19") {
      EXPECT_NE(flag.sentence.find("cannot be known"), std::string::npos) << flag.sentence;
    }
}

TEST(Checks, JobsThatDifferWidenTheInterval) {
  std::vector<record::RunData> runs = {make_run({.name = "a", .job = "1"}),
                                       make_run({.name = "b", .step_ms = 108, .job = "2"})};
  EXPECT_EQ(count_flags(analysis_of(runs), "M03"), 1u);
}

TEST(Checks, RunsThatAgreeByChanceShowHowLittleEachIsKnown) {
  // Single steps scatter by 60 %: each run is known to a few percent only, three of them agree to a hundredth of one.
  std::vector<record::RunData> runs;
  for (int i = 0; i < 3; ++i)
    runs.push_back(make_run({.name = fmt::format("r{}", i),
                             .step_ms = 100,
                             .ripple = 0.6,
                             .num_steps = 260,
                             .job = fmt::format("slurm {}", i)}));
  const Analysis analysis = analysis_of(runs, {.warmup_steps = 20});
  const Point& point = analysis.curves.at(0).points.at(0);
  const auto& own = analysis.runs.at(0).series->median_interval;
  ASSERT_TRUE(own && point.estimate.median_interval);
  const double own_half = (own->high - own->low) / 2 / 100,
               half = (point.estimate.median_interval->high - point.estimate.median_interval->low) / 2 / 100;
  ASSERT_GT(own_half, 0.02);
  ASSERT_LT(half, own_half);
  std::string said;
  for (const Flag& flag : analysis.flags)
    if (flag.code == "M03") said += flag.sentence + "\n";
  EXPECT_NE(said.find("by itself is known to +-"), std::string::npos) << said;
  EXPECT_NE(said.find("may agree by chance"), std::string::npos) << said;
  runs[1] = make_run({.name = "short", .num_steps = 24, .num_slow = 2, .job = "slurm 9"});
  said.clear();
  for (const Flag& flag : analysis_of(runs, {.warmup_steps = 20}).flags) said += flag.sentence + "\n";
  EXPECT_NE(said.find("1 of 3 runs have too few steps for an interval of their own"), std::string::npos) << said;
}

TEST(Checks, SyntheticDataIsSaid) {
  std::vector<record::RunData> runs = quiet_pair();
  for (record::RunData& run : runs) run.setup.is_synthetic = true;
  EXPECT_EQ(count_flags(analysis_of(runs), "M06"), 1u);
}

TEST(Checks, DriftIsNotASteadyState) {
  std::vector<record::RunData> runs = quiet_pair();
  for (record::RunData& run : runs)
    for (size_t i = 0; i < run.steps.size(); ++i) run.steps.step_ms[i] *= 1 + 0.0004 * static_cast<double>(i);
  EXPECT_GE(count_flags(analysis_of(runs), "M02"), 2u);
}

TEST(Checks, WaitingForDataIsAStall) {
  std::vector<record::RunData> runs = quiet_pair();
  for (record::RunData& run : runs)
    for (double& wait : run.steps.data_wait_ms) wait = 8;
  const Analysis analysis = analysis_of(runs);
  ASSERT_EQ(count_flags(analysis, "M11"), 1u);
  EXPECT_NEAR(analysis.curves[0].points[0].data_wait_share, 0.08, 0.002);
}

TEST(Checks, ImpossibleUtilisationAndPeaks) {
  std::vector<record::RunData> runs = quiet_pair();
  EXPECT_EQ(count_flags(analysis_of(runs, {.peak_tflops = 2}), "M09"), 1u);
  EXPECT_EQ(count_flags(analysis_of(runs, {.measured_peak_tflops = 2}), "M09"), 1u);
  EXPECT_EQ(count_flags(analysis_of(runs, {.peak_tflops = 1979}), "M08"), 1u) << "the sparsity peak of a GH200";
}

TEST(Checks, EfficiencyAboveOneIsDoubted) {
  std::vector<record::RunData> runs = quiet_pair();
  runs.push_back(make_run({.name = "two", .nodes = 2, .step_ms = 80}));
  EXPECT_EQ(count_flags(analysis_of(runs), "M09"), 1u);
}

TEST(Checks, ASlowRankIsNamed) {
  std::vector<record::RunData> runs = quiet_pair();
  for (record::RunData& run : runs)
    for (int64_t step = 9; step < 700; step += 10)
      run.rank_times.push_back({.attempt = 1,
                                .step = step,
                                .num_steps = 10,
                                .step_ms = {100, 100, 100, 100},
                                .data_wait_ms = {},
                                .compute_ms = {80, 81, 96, 80.5},
                                .comm_wait_ms = {20, 19, 4, 19.5},
                                .hosts = {"n1", "n1", "n2", "n2"}});
  const Analysis analysis = analysis_of(runs);
  ASSERT_EQ(count_flags(analysis, "M12"), 2u);
  EXPECT_NE(analysis.flags[0].sentence.find("rank 2 on n2"), std::string::npos) << analysis.flags[0].sentence;
  const draw::Table table = straggler_table(analysis.curves[0], analysis.runs);
  EXPECT_EQ(table.rows.at(0).at(2).text, "2");
  EXPECT_EQ(host_table(analysis.curves[0], analysis.runs).rows.at(0).at(0).text, "n2");
}

/// A run of 4 hosts of 8 ranks; all ranks of `slow_host` (-1: of none) compute 20 % longer, and noise of 1 % makes now
/// one and now another the slowest.
record::RunData run_of_hosts(int slow_host) {
  record::RunData run = make_run({.name = "hosts", .nodes = 4, .devices_per_node = 8});
  for (int64_t step = 9; step < 700; step += 10) {
    record::RankTimesRecord times{.attempt = 1, .step = step, .num_steps = 10};
    for (int rank = 0; rank < 32; ++rank) {
      times.step_ms.push_back(100);
      times.compute_ms.push_back((rank / 8 == slow_host ? 96 : 80) *
                                 (1 + 0.01 * tests::ripple_at(static_cast<size_t>(step * 32 + rank))));
      times.hosts.push_back(fmt::format("n{}", rank / 8));
    }
    run.rank_times.push_back(times);
  }
  return run;
}

TEST(Checks, ASlowNodeIsNamedThoughNoneOfItsRanksStandsOut) {
  const Analysis analysis = analysis_of({run_of_hosts(2)});
  ASSERT_EQ(count_flags(analysis, "M12"), 1u);
  const auto flag =
      std::find_if(analysis.flags.begin(), analysis.flags.end(), [](const Flag& one) { return one.code == "M12"; });
  EXPECT_EQ(flag->name, "slow-node");
  EXPECT_NE(flag->sentence.find("host n2 "), std::string::npos) << flag->sentence;
  EXPECT_NE(flag->sentence.find("100 % of the intervals"), std::string::npos) << flag->sentence;
}

TEST(Checks, EvenHostsAndEvenPairsOfRanksAccuseNobody) {
  record::RunData pair = make_run({.name = "pair", .devices_per_node = 2});
  for (int64_t step = 9; step < 700; step += 10) {
    const double more =
        step % 20 == 9 ? 8 : 0;  // each rank is the slower one in every other interval, the first by more
    pair.rank_times.push_back({.attempt = 1,
                               .step = step,
                               .num_steps = 10,
                               .step_ms = {100, 100},
                               .data_wait_ms = {},
                               .compute_ms = {80 + more, 81},
                               .comm_wait_ms = {},
                               .hosts = {"n0", "n0"}});
  }
  for (const record::RunData& run : {run_of_hosts(-1), pair}) {
    const Analysis analysis = analysis_of({run});
    EXPECT_GT(analysis.runs.at(0).num_rank_intervals, 50u) << run.name;
    EXPECT_EQ(count_flags(analysis, "M12"), 0u) << run.name;
  }
}

TEST(Checks, LossWithoutACauseIsSaid) {
  std::vector<record::RunData> runs = quiet_pair();
  runs.push_back(make_run({.name = "two", .nodes = 2, .step_ms = 110, .job = "3"}));
  for (record::RunData& run : runs)
    for (size_t i = 0; i < run.steps.size(); ++i) {
      const bool is_two = run.name == "two";
      run.steps.phases_ms["forward"].push_back(30);
      run.steps.phases_ms["backward"].push_back(60);
      run.steps.phases_ms["exposed_comm"].push_back(is_two ? 4 : 1);
      run.steps.phases_ms["other"].push_back(is_two ? 16 : 9);
    }
  const Analysis analysis = analysis_of(runs);
  ASSERT_EQ(count_flags(analysis, "M13"), 1u);
  const auto flag =
      std::find_if(analysis.flags.begin(), analysis.flags.end(), [](const Flag& one) { return one.code == "M13"; });
  EXPECT_NE(flag->sentence.find("70 %"), std::string::npos) << flag->sentence;
}

TEST(Checks, ABaseAboveOneNodeAndAFlaggedBase) {
  std::vector<record::RunData> runs;
  for (const int nodes : {2, 4})
    for (const char* job : {"1", "2"})
      runs.push_back(make_run(
          {.name = fmt::format("n{}j{}", nodes, job), .nodes = nodes, .job = fmt::format("{}{}", nodes, job)}));
  EXPECT_EQ(count_flags(analysis_of(runs), "M14"), 1u);
  for (double& wait : runs[0].steps.data_wait_ms) wait = 30;
  EXPECT_EQ(count_flags(analysis_of(runs), "M14"), 2u);
}

TEST(Checks, DebuggingAndLossesThatAreNotFinite) {
  std::vector<record::RunData> runs = quiet_pair();
  for (record::RunData& run : runs) run.software["NCCL_DEBUG"] = "INFO";
  runs[0].steps.loss[50] = std::nan("");
  const Analysis analysis = analysis_of(runs);
  EXPECT_EQ(count_flags(analysis, "M16"), 2u);
  EXPECT_EQ(count_flags(analysis, "M17"), 1u);
}

TEST(Checks, SettingsOfNcclAndCudaAreNoDebuggingOfARunOnProcessors) {
  for (const bool is_on_cpu : {false, true}) {
    record::RunData run = make_run({});
    run.setup.is_on_cpu = is_on_cpu;
    run.software["NCCL_DEBUG"] = "INFO";
    run.software["CUDA_LAUNCH_BLOCKING"] = "1";
    EXPECT_EQ(count_flags(analysis_of({run}), "M16"), is_on_cpu ? 0u : 2u);
    run.software["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL";
    EXPECT_EQ(count_flags(analysis_of({run}), "M16"), is_on_cpu ? 1u : 3u) << "Gloo reads it, too";
  }
}

TEST(Checks, ASingleRunWhoseIntervalSaysNothingHasWordsInstead) {
  record::RunData run = make_run({.num_steps = 60});
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  for (double& ms : run.steps.step_ms) ms = 100 * std::exp(normal(random));
  run.steps.time_s.assign(run.steps.size(), std::nan(""));
  const Analysis analysis = analysis_of({run}, {.warmup_steps = 10});
  const Point& point = analysis.curves.at(0).points.at(0);
  ASSERT_TRUE(analysis.runs.at(0).series->median_interval);
  EXPECT_FALSE(point.estimate.median_interval);
  EXPECT_FALSE(point.samples_per_s.has_range);
  EXPECT_EQ(point.no_interval.find("the steps of the only run vary so much that their median may be anything from "),
            0u)
      << point.no_interval;
  const std::string text = summary_text(analysis);
  EXPECT_EQ(text.find("samples/s)  ("), std::string::npos) << text;
  EXPECT_NE(core::replace_all(core::replace_all(text, "\n      ", " "), "\n", " ").find("may be anything from"),
            std::string::npos)
      << text;
  EXPECT_EQ(count_flags(analysis, "M03"), 1u);
  EXPECT_TRUE(analysis_of({make_run({.num_steps = 60})}).curves.at(0).points.at(0).no_interval.empty());
}

TEST(Checks, SkippedStepsAreCountedWithTheFirst) {
  std::vector<record::RunData> runs = quiet_pair();
  runs[0].steps.num_skipped.assign(runs[0].steps.size(), 0);
  runs[0].steps.num_skipped[120] = runs[0].steps.num_skipped[300] = 1;
  const Analysis analysis = analysis_of(runs);
  ASSERT_EQ(analysis.flags.size(), 1u);
  EXPECT_EQ(analysis.flags[0].code, "M17");
  EXPECT_NE(analysis.flags[0].sentence.find("a skipped 2 steps"), std::string::npos) << analysis.flags[0].sentence;
  EXPECT_NE(analysis.flags[0].sentence.find("is step 120"), std::string::npos) << analysis.flags[0].sentence;
}

TEST(Checks, SoftwareThatChangesAlongACurveIsSaid) {
  std::vector<record::RunData> runs = quiet_pair();
  runs.push_back(make_run({.name = "two", .nodes = 2, .job = "3"}));
  for (record::RunData& run : runs) run.software["nccl"] = run.name == "two" ? "2.28" : "2.27";
  EXPECT_EQ(count_flags(analysis_of(runs), "M05"), 1u);
}

TEST(Checks, WhatTheSchedulerCountsIsNoDifferenceInSoftware) {
  std::vector<record::RunData> runs = quiet_pair();
  runs.push_back(make_run({.name = "two", .nodes = 2, .job = "3"}));
  for (record::RunData& run : runs) {
    const bool is_two = run.name == "two";
    run.software["SLURM_JOB_NODELIST"] = is_two ? "n[4-5]" : "n" + run.name;
    run.software["SLURM_JOB_NUM_NODES"] = is_two ? "2" : "1";
    run.software["SLURM_NTASKS"] = is_two ? "8" : "4";
    run.software["SLURM_TOPOLOGY_ADDR"] = "rack." + run.name;
    run.software["CUDA_VISIBLE_DEVICES"] = is_two ? "0,1,2,3" : "0";
  }
  EXPECT_EQ(count_flags(analysis_of(runs), "M05"), 0u);
  runs.back().software["NCCL_ALGO"] = "Ring";
  runs.front().software["NCCL_ALGO"] = "Tree";
  EXPECT_EQ(count_flags(analysis_of(runs), "M05"), 1u);
}

/// Strong scaling from 1 to 2 nodes: 80 ms instead of 50, forward and backward halve as they should.
Analysis strong_pair(const std::string& growing) {
  std::vector<record::RunData> runs;
  for (const int64_t nodes : {1, 2}) {
    runs.push_back(make_run({.name = fmt::format("n{}", nodes),
                             .nodes = nodes,
                             .samples_per_device = 16 / nodes,
                             .step_ms = nodes == 1 ? 100.0 : 80.0}));
    for (size_t i = 0; i < runs.back().steps.size(); ++i) {
      runs.back().steps.phases_ms["forward"].push_back(33.0 / static_cast<double>(nodes));
      runs.back().steps.phases_ms["backward"].push_back(66.0 / static_cast<double>(nodes));
      runs.back().steps.phases_ms[growing].push_back(nodes == 1 ? 1 : 30.5);
    }
  }
  return analysis_of(runs);
}

TEST(Checks, StrongScalingIsMeasuredAgainstTheBaseSharedOut) {
  const Analysis unexplained = strong_pair("other"), explained = strong_pair("exposed_comm");
  ASSERT_EQ(unexplained.curves.at(0).kind, ScalingKind::kStrong) << unexplained.curves[0].kind_reason;
  ASSERT_EQ(count_flags(unexplained, "M13"), 1u);
  for (const Flag& flag : unexplained.flags)
    if (flag.code == "M13") {
      EXPECT_NE(flag.sentence.find("100 % of that has no cause"), std::string::npos) << flag.sentence;
    }
  EXPECT_EQ(count_flags(explained, "M13"), 0u);
  const std::string text = conclusions_of(explained.curves[0], {}).at(0);
  EXPECT_NE(text.find("30.0 ms, is exposed_comm"), std::string::npos) << text;
  EXPECT_NE(text.find("shared out"), std::string::npos) << text;
}

TEST(Checks, TelemetryThatGrewIsAKnownCause) {
  std::vector<record::RunData> runs = quiet_pair();
  runs.push_back(make_run({.name = "two", .nodes = 2, .step_ms = 110, .job = "3"}));
  for (record::RunData& run : runs)
    for (size_t i = 0; i < run.steps.size(); ++i) {
      run.steps.phases_ms["forward"].push_back(99);
      run.steps.phases_ms["telemetry"].push_back(run.name == "two" ? 11 : 1);
    }
  const Analysis analysis = analysis_of(runs);
  EXPECT_EQ(count_flags(analysis, "M13"), 0u);
  const auto chart = breakdown_chart(analysis.curves.at(0));
  ASSERT_TRUE(chart && chart->bars);
  EXPECT_EQ(chart->bars->parts, (std::vector<std::string>{"forward", "telemetry"}));
}

TEST(Checks, TelemetryAboveOnePercentOfTheStepIsToldWithItsNumber) {
  for (const auto& [ms, num_flags] : {std::pair{0.5f, 0u}, {3.0f, 1u}}) {
    std::vector<record::RunData> runs = quiet_pair();
    for (record::RunData& run : runs) run.steps.phases_ms["telemetry"].assign(run.steps.size(), ms);
    const Analysis analysis = analysis_of(runs);
    ASSERT_EQ(count_flags(analysis, "M18"), num_flags) << ms;
    EXPECT_EQ(analysis.flags.size(), num_flags) << ms;
    if (num_flags == 0) continue;
    EXPECT_NE(analysis.flags[0].sentence.find("3.0 % of the step time (3.00 of 100.0 ms)"), std::string::npos)
        << analysis.flags[0].sentence;
  }
}

TEST(Checks, TheMethodIsTheOneOfTheEstimator) {
  const std::string method = fmt::format("{}", fmt::join(method_of(analysis_of(quiet_pair())), " "));
  EXPECT_NE(method.find(stats::kWarmupMethod), std::string::npos) << method;
  EXPECT_NE(method.find(stats::kMedianIntervalMethod), std::string::npos) << method;
  for (const char* unused : {"MSER", "batches", "change-point"})
    EXPECT_EQ(method.find(unused), std::string::npos) << unused;
}

TEST(Checks, OddRowsAreCountedAndTold) {
  record::RunData run = make_run({.name = "odd"});
  run.steps.step_ms[100] = std::nan("");
  run.steps.step_ms[101] = -3;
  run.steps.step_ms[102] = 0;
  run.problems = {"the last line of steps.jsonl is cut"};
  const Analysis analysis = analysis_of({run});
  const draw::Table problems = problem_table(analysis);
  std::string all;
  for (const auto& row : problems.rows) all += row.at(1).text + "\n";
  EXPECT_NE(all.find("3 rows have no step time"), std::string::npos) << all;
  EXPECT_NE(all.find("is cut"), std::string::npos) << all;
}

TEST(Checks, ARestartedRunIsMeasuredInItsLongestAttempt) {
  record::RunData run = make_run({.name = "restarted"});
  for (size_t i = 600; i < run.steps.size(); ++i) {
    run.steps.attempt[i] = 2;
    run.steps.step_ms[i] = 400;
  }
  const Analysis analysis = analysis_of({run});
  EXPECT_NEAR(analysis.curves[0].points[0].estimate.median_ms, 100, 1);
  EXPECT_FALSE(problem_table(analysis).rows.empty());
}

TEST(Checks, EnergyCountsPackagesAndDevicesOnce) {
  record::RunData run = make_run({.name = "metered"});
  for (int64_t step = 9; step < 700; step += 10)
    for (const char* host : {"n1", "n2"})
      run.system.push_back(
          {.attempt = 1,
           .step = step,
           .num_steps = 10,
           .host = host,
           .received_bytes = {},
           .sent_bytes = {},
           .energy_j = {{"nvml-0", 100.0}, {"nvml-1", 100.0}, {"rapl-package-0", 50.0}, {"rapl-core-0", 40.0}}});
  const Analysis analysis = analysis_of({run});
  const Point& point = analysis.curves[0].points[0];
  ASSERT_TRUE(point.energy);
  // 2 hosts x 250 J over 10 steps of 32 samples.
  EXPECT_NEAR(point.energy->joules / point.energy->samples, 500.0 / 320.0, 1e-9);
  EXPECT_EQ(point.energy->num_hosts, 2u);
}

}  // namespace
}  // namespace lockstep::analysis
