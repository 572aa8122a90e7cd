// Logs that print a line every k steps, of every program, with evaluations between the steps and without: what a report
// and a proposal make of them must be what was generated, however often lines come.
#include <algorithm>

#include "analysis/cells.h"
#include "analysis/document.h"
#include "analysis/proposal.h"
#include "core/strings.h"
#include "draw/render.h"
#include "unit/analysis/log_writers.h"

namespace lockstep::analysis::intervals {
namespace {

/// Time lost between steps, of a point, and of the base that every efficiency leans on.
bool is_stall_flagged(const Analysis& analysis) {
  return std::any_of(analysis.flags.begin(), analysis.flags.end(),
                     [&](const Flag& flag) { return flag.code == "M11"; });
}
bool is_base_doubted_for_stalls(const Analysis& analysis) {
  return std::any_of(analysis.flags.begin(), analysis.flags.end(), [&](const Flag& flag) {
    return flag.code == "M14" && flag.sentence.find("M11") != std::string::npos;
  });
}

TEST_P(EveryReader, GivesEfficiencyPausesAndNodeHoursOfTheRunHoweverOftenItPrints) {
  for (const int64_t steps_per_line : {1, 5, 10, 100})
    for (const int64_t steps_per_evaluation : {0, 50, 200}) {
      SCOPED_TRACE(fmt::format("a line every {} steps, an evaluation every {}", steps_per_line, steps_per_evaluation));
      const Timeline one(1, steps_per_line, steps_per_evaluation), two(2, steps_per_line, steps_per_evaluation);
      const Analysis analysis =
          analyse({read(one), read(two)}, {.budget_samples = kSamples, .budget_tokens = kSamples * kSequence});
      ASSERT_EQ(analysis.curves.size(), 1u);
      const Curve& curve = analysis.curves[0];
      ASSERT_EQ(curve.points.size(), 2u);
      constexpr double kAllowed = 0.01;
      EXPECT_NEAR(curve.points[1].efficiency.value, kWeakEfficiency, kAllowed * kWeakEfficiency);
      for (const Timeline* run : {&one, &two}) {
        const auto estimate = estimate_resources(curve, analysis, {.job_size = run->nodes});
        ASSERT_TRUE(estimate);
        const double node_hours = run->node_hours(kSamples);
        EXPECT_NEAR(estimate->total_node_hours, node_hours, kAllowed * node_hours);
        constexpr double kRounding = 1e-3;  // of times of day, of rates
        EXPECT_NEAR(estimate->pause_share, run->pause_share(), kAllowed * run->pause_share() + kRounding);
      }
      const bool are_pauses_long = steps_per_evaluation == 50;  // 10 % of the time; every 200 steps they are 2.5 %
      EXPECT_EQ(is_stall_flagged(analysis), are_pauses_long);
      EXPECT_EQ(is_base_doubted_for_stalls(analysis), are_pauses_long);
    }
}

/// The bar of all readers: 1 %, with steps that vary by several percent, and first steps of epochs that wait for their
/// loader, however many of the printed ones these are.
TEST_P(EveryReader, IsWithinOnePercentOfTheTruthWithNoiseAndSlowStartsOfEpochs) {
  constexpr double kAllowed = 0.01, kNoise = 0.03, kLoaderS = 9, kEvaluationShare = 0.125;
  for (const int64_t steps_per_line : {1, 5, 10, 100})
    for (const int64_t steps_per_evaluation : {0, 200, 1000}) {
      SCOPED_TRACE(fmt::format("a line every {} steps, an evaluation every {}", steps_per_line, steps_per_evaluation));
      const SlowSteps starts = GetParam().has_epochs && steps_per_evaluation > 0
                                   ? SlowSteps{steps_per_evaluation, 1, kLoaderS}
                                   : SlowSteps{};
      const double evaluation_s = kEvaluationShare * kStepS * static_cast<double>(steps_per_evaluation);
      const Timeline one(1, steps_per_line, steps_per_evaluation, starts, kNoise, evaluation_s),
          two(2, steps_per_line, steps_per_evaluation, starts, kNoise, evaluation_s);
      const Analysis analysis =
          analyse({read(one), read(two)}, {.budget_samples = kSamples, .budget_tokens = kSamples * kSequence});
      ASSERT_EQ(analysis.curves.size(), 1u);
      ASSERT_EQ(analysis.curves[0].points.size(), 2u);
      EXPECT_NEAR(analysis.curves[0].points[1].efficiency.value, kWeakEfficiency, kAllowed * kWeakEfficiency);
      for (const Timeline* run : {&one, &two}) {
        const auto estimate = estimate_resources(analysis.curves[0], analysis, {.job_size = run->nodes});
        ASSERT_TRUE(estimate);
        EXPECT_NEAR(estimate->total_node_hours / run->node_hours(kSamples), 1, kAllowed);
        if (steps_per_evaluation > 0)
          EXPECT_NEAR(estimate->pause_share / run->pause_share(), 1, kAllowed);
        else
          EXPECT_LT(estimate->pause_share, 1e-3);
      }
    }
}

/// Logs without times of day: their step times hold, and of pauses the report says that nothing was measured.
TEST(LogsWithoutTimesOfDay, GiveTheStepsWithinOnePercentAndSayThatPausesAreNotKnown) {
  const core::TempDir folder;
  for (const auto& [name, log] : {std::pair("imagenet", &imagenet_log), {"tf_cnn", &tf_cnn_log}})
    for (const int64_t steps_per_line : {1, 5, 10, 100}) {
      SCOPED_TRACE(fmt::format("{}, a line every {} steps", name, steps_per_line));
      const bool has_epochs = std::string_view(name) == "imagenet";
      const Timeline run(1, steps_per_line, 200, has_epochs ? SlowSteps{200, 1, 9} : SlowSteps{}, 0.05);
      std::string text;
      for (const std::string& line : core::split(log(run), "\n"))
        text +=
            std::string(line.starts_with("2026-") ? std::string_view(line).substr(stamp(0).size() + 1) : line) + "\n";
      const std::filesystem::path path = folder.path() / "run.log";
      std::ofstream(path, std::ios::binary) << text;
      const RunSummary summary =
          summarise_run(logs::read_log(path, std::nullopt,
                                       {.meta = {.values = {{"nodes", "1"},
                                                            {"devices", std::to_string(run.devices())},
                                                            {"global_batch", std::to_string(run.global_batch())}}}})
                            .front(),
                        {});
      const Analysis analysis = analyse({summary}, {.budget_samples = kSamples});
      ASSERT_EQ(analysis.curves.size(), 1u);
      const auto estimate = estimate_resources(analysis.curves[0], analysis, {.job_size = 1});
      ASSERT_TRUE(estimate);
      const double hours = run.node_hours(kSamples) / (1 + run.pause_share());
      EXPECT_NEAR(estimate->total_node_hours / hours, 1, 0.01);
      EXPECT_FALSE(estimate->is_pause_known);
      EXPECT_NE(estimate->pause_source.find("not measured: the logs tell no times of day"), std::string::npos)
          << estimate->pause_source;
    }
}

TEST(DeepSpeedLogs, TellAllStepsOfARunAndHowManyOfThemAreTimed) {
  const core::TempDir folder;
  Timeline run(1, 10, 50);
  run.num_steps = 1000;
  const std::filesystem::path path = folder.path() / "run.log";
  std::ofstream(path, std::ios::binary) << deepspeed_start(run) << deepspeed_log(run);
  const RunSummary summary = summarise_run(logs::read_log(path, std::nullopt, {}).front(), {});
  EXPECT_EQ(summary.num_steps, 1000);
  EXPECT_NEAR(static_cast<double>(summary.num_window_steps), 10 * static_cast<double>(summary.num_measured_steps), 10);
  const Analysis analysis = analyse({summary}, {.budget_samples = kSamples});
  const std::string text = draw::to_markdown(make_proposal(analysis, {.job_size = 1}));
  EXPECT_NE(text.find(fmt::format("{} optimiser steps after warm-up in all, of which the logs tell the time of {}",
                                  summary.num_window_steps, summary.num_measured_steps)),
            std::string::npos)
      << text;
}

TEST(TfCnnLogs, TellHowCoarseSlowRatesAre) {
  const auto problems_at = [](double rate) {
    const core::TempDir folder;
    const std::filesystem::path path = folder.path() / "run.log";
    std::string text = "Model:       resnet50\nBatch size:  64 global\n             64 per device\n";
    for (int step = 10; step <= 200; step += 10)
      text += fmt::format("{}\timages/sec: {:.1f} +/- 0.0 (jitter = 0.1)\t7.123\n", step, rate);
    std::ofstream(path, std::ios::binary) << text << fmt::format("total images/sec: {:.1f}\n", rate);
    return core::join(logs::read_log(path, std::nullopt, {}).front().problems, "\n");
  };
  EXPECT_NE(problems_at(2.5).find("known to 2.0 % only"), std::string::npos) << problems_at(2.5);
  EXPECT_EQ(problems_at(25).find("known to"), std::string::npos);
}

TEST(TfCnnLogs, TellNothingOfLaunchPacing) {
  const core::TempDir folder;
  const std::filesystem::path path = folder.path() / "run.log";
  const Timeline run(1, 1, 0, {}, 0.0002);  // steadier than the last digit of the rate
  std::ofstream(path, std::ios::binary) << tf_cnn_log(run);
  const RunSummary summary = summarise_run(logs::read_log(path, std::nullopt, {}).front(), {});
  ASSERT_TRUE(summary.series);
  EXPECT_FALSE(summary.series->is_dispatch_limited);
  EXPECT_NEAR(summary.series->median_ms, 1000 * kStepS, 0.005 * 1000 * kStepS);
  EXPECT_NE(core::join(summary.problems, "\n").find("with one decimal"), std::string::npos);
  EXPECT_EQ(summary.num_steps, run.num_steps) << "those behind the last line that tells a time, too";
  const auto& interval = summary.series->median_interval;
  ASSERT_TRUE(interval);
  EXPECT_GE(interval->high / interval->low - 1, 0.04 / (static_cast<double>(run.global_batch()) / kStepS))
      << "no narrower than the rate's last digit";
}

/// Sizes, batches and rates of a log with a restart on more devices are of one start: the longer one.
class EveryRestart : public EveryReader {};

TEST_P(EveryRestart, OnOtherDevicesGivesSizeAndRateOfTheLongestStart) {
  for (const int64_t steps_per_line : {1, 10})
    for (const bool goes_on : {false, true}) {
      SCOPED_TRACE(fmt::format("a line every {} steps, steps {}", steps_per_line, goes_on ? "go on" : "begin anew"));
      Timeline one(1, steps_per_line, 0), two(2, steps_per_line, 0);
      one.num_steps = 300;
      if (goes_on) two.steps_before = one.num_steps;
      const auto text_of = [](const Timeline& run) {
        return (GetParam().start != nullptr ? GetParam().start(run) : "") + GetParam().log(run);
      };
      const std::filesystem::path path = folder_.path() / "restart.log";
      std::ofstream(path, std::ios::binary) << text_of(one) << text_of(two);
      const std::vector<record::RunData> runs = logs::read_log(path, std::nullopt, {});
      ASSERT_EQ(runs.size(), 1u);
      EXPECT_EQ(runs[0].setup.devices, two.devices());
      EXPECT_EQ(runs[0].setup.global_batch, two.global_batch());
      const RunSummary summary = summarise_run(runs[0], {});
      ASSERT_TRUE(summary.series);
      EXPECT_NEAR(summary.series->median_ms, 1000 * kStepS / kWeakEfficiency, 10);
      EXPECT_EQ(summary.samples_per_step, two.global_batch());
    }
}

TEST(TfCnnLogs, AreLeftOutWhereNobodyCanTellOfHowManyWorkersTheBatchIs) {
  const core::TempDir folder;
  const std::filesystem::path path = folder.path() / "run.log";
  std::ofstream(path) << "Model:       resnet50\nBatch size:  256 global\n             64 per device\n"
                         "10\timages/sec: 320.0 +/- 4.2 (jitter = 21.0)\t7.123\n"
                         "20\timages/sec: 320.0 +/- 4.2 (jitter = 21.0)\t7.123\n";
  const record::RunData run = logs::read_log(path, std::nullopt, {}).front();
  EXPECT_EQ(run.steps.size(), 0u);
  ASSERT_FALSE(run.problems.empty());
  EXPECT_NE(run.problems[0].find("of how many workers"), std::string::npos) << run.problems[0];
}

TEST_P(EveryReader, GivesThePauseShareOfARunThatEndsWithAnEvaluation) {
  constexpr int64_t kStepsPerEvaluation = 50, kNumEvaluations = 6;
  Timeline run(1, 5, kStepsPerEvaluation);
  run.num_steps = kNumEvaluations * kStepsPerEvaluation;
  const Analysis analysis = analyse({read(run)}, {.budget_samples = kSamples, .budget_tokens = kSamples * kSequence});
  ASSERT_EQ(analysis.curves.size(), 1u);
  const auto estimate = estimate_resources(analysis.curves[0], analysis, {.job_size = 1});
  ASSERT_TRUE(estimate);
  EXPECT_NEAR(estimate->pause_share, run.pause_share(), 0.02 * run.pause_share());  // stamps of whole seconds
  EXPECT_NE(estimate->pause_source.find(" pauses in the runs"), std::string::npos) << estimate->pause_source;
}

TEST_P(EveryReader, TakesABudgetOfSamplesAlsoWhereRatesAreToldInTokens) {
  Timeline run(1, 5, 50);
  run.num_steps = 100;
  const Analysis of_samples = analyse({read(run)}, {.budget_samples = kSamples, .is_samples_budget_given = true}),
                 of_tokens = analyse({read(run)}, {.budget_samples = kSamples,
                                                   .budget_tokens = kSamples * kSequence,
                                                   .is_tokens_budget_given = true});
  ASSERT_EQ(of_samples.curves.size(), 1u);
  const auto hours = [](const Analysis& analysis) {
    return estimate_resources(analysis.curves[0], analysis, {.job_size = 1}).value().node_hours;
  };
  EXPECT_NEAR(hours(of_samples), hours(of_tokens), 1e-9 * hours(of_tokens));
  EXPECT_TRUE(is_work_given(of_samples.curves[0].points[0], of_samples.options));
}

/// The whole estimate of a log whose lines tell some steps only.
class SampledLogs : public EveryReader {};

TEST_P(SampledLogs, AreBilledByTheWallClockWhereTheToldStepsAreSlowerThanTheRest) {
  struct Case {
    int64_t steps_per_line = 1, steps_per_evaluation = 0;
    SlowSteps slow{};
  };
  // Loaders start with each epoch; a slow step on each line.
  for (const Case& one : {Case{10, 50, {50, 1, 15}}, Case{100, 0, {100, 0, 3}}, Case{100, 0, {100, 1, 8}}}) {
    SCOPED_TRACE(fmt::format("a line every {} steps, a slow one every {}", one.steps_per_line, one.slow.every));
    const Timeline run(1, one.steps_per_line, one.steps_per_evaluation, one.slow);
    const Analysis analysis = analyse({read(run)}, {.budget_samples = kSamples, .budget_tokens = kSamples * kSequence});
    ASSERT_EQ(analysis.curves.size(), 1u);
    const auto estimate = estimate_resources(analysis.curves[0], analysis, {.job_size = 1});
    ASSERT_TRUE(estimate);
    EXPECT_NEAR(estimate->total_node_hours, run.node_hours(kSamples), 0.01 * run.node_hours(kSamples));
  }
}

TEST_P(SampledLogs, SayThatWhatLooksLikeAPauseInEachIntervalMayBeASlowStep) {
  const Timeline run(1, 10, 0, {10, 5, 2 * kStepS});  // between the steps that are told
  const Analysis analysis = analyse({read(run)}, {.budget_samples = kSamples});
  ASSERT_EQ(analysis.curves.size(), 1u);
  const auto estimate = estimate_resources(analysis.curves[0], analysis, {.job_size = 1});
  ASSERT_TRUE(estimate);
  EXPECT_NEAR(estimate->total_node_hours, run.node_hours(kSamples), 0.01 * run.node_hours(kSamples));
  EXPECT_NE((estimate->pause_source + estimate->slow_source).find("not every step's time is told"), std::string::npos)
      << estimate->pause_source;
}

TEST_P(SampledLogs, TellASlowStepInEveryThirdOrFourthAsLostTimeAndNotAsLaunchPacing) {
  for (const int64_t every : {3, 4}) {
    constexpr double kSlowS = 1;
    const Timeline run(1, 1, 0, {every, 1, kSlowS});
    const Analysis analysis = analyse({read(run)}, {.budget_samples = kSamples, .budget_tokens = kSamples * kSequence});
    ASSERT_EQ(analysis.curves.size(), 1u);
    EXPECT_NEAR(analysis.curves[0].points[0].estimate.median_ms, 1000 * kStepS, 10);
    const auto estimate = estimate_resources(analysis.curves[0], analysis, {.job_size = 1});
    ASSERT_TRUE(estimate);
    EXPECT_NEAR(estimate->slow_share, kSlowS / kStepS / static_cast<double>(every), 0.01);
    EXPECT_TRUE(is_stall_flagged(analysis));
  }
}

TEST_P(SampledLogs, OfRunsThatDisagreeTellOfNoSlowSteps) {
  const Timeline fast(1, 1, 0), slow(1, 1, 0, {1, 0, 2});
  const Analysis analysis = analyse({read(fast), read(slow)}, {.budget_samples = kSamples});
  ASSERT_EQ(analysis.curves.size(), 1u);
  EXPECT_FALSE(is_stall_flagged(analysis));
  const auto estimate = estimate_resources(analysis.curves[0], analysis, {.job_size = 1});
  ASSERT_TRUE(estimate);
  EXPECT_LT(estimate->slow_share, 0.005);
}

constexpr Program kSampledPrograms[] = {{"deepspeed", logs::LogFormat::kDeepSpeed, deepspeed_log},
                                        {"imagenet", logs::LogFormat::kImageNet, imagenet_log}};
INSTANTIATE_TEST_SUITE_P(Logs, SampledLogs, testing::ValuesIn(kSampledPrograms), program_name);

TEST(OpenClipLogs, DoNotTellDataWaitOfAccumulatedSteps) {
  const core::TempDir folder;
  const Timeline run(1, 10, 0);
  for (const bool accumulates : {false, true}) {
    const std::filesystem::path path = folder.path() / fmt::format("run{}.log", accumulates);
    std::string start = openclip_start(run);
    if (accumulates) start = core::replace_all(start, "accum_freq: 1", "accum_freq: 4");
    if (accumulates)
      start = core::replace_all(start, fmt::format("batch_size: {}", run.global_batch() / run.devices()),
                                fmt::format("batch_size: {}", run.global_batch() / run.devices() / 4));
    std::ofstream(path, std::ios::binary) << start << openclip_log(run);
    const RunSummary summary = summarise_run(logs::read_log(path, std::nullopt, {}).front(), {});
    EXPECT_EQ(std::isfinite(summary.data_wait_share), !accumulates);
    EXPECT_EQ(core::join(summary.problems, "\n").find("contains compute") != std::string::npos, accumulates);
  }
}

INSTANTIATE_TEST_SUITE_P(Logs, EveryReader, testing::ValuesIn(kPrograms), program_name);

TEST(EveryFormatOfTraining, IsInTheCasesOfItsReader) {
  std::vector<std::string> names;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    if (!std::string_view(suite.name()).ends_with("/EveryReader")) continue;
    for (int j = 0; j < suite.total_test_count(); ++j) names.emplace_back(suite.GetTestInfo(j)->name());
  }
  for (const logs::LogFormatInfo& format : logs::kLogFormats) {
    if (format.reader == nullptr || format.is_benchmark) continue;
    const std::string end = "/" + std::string(format.name);
    const auto is_of_format = [&](const std::string& name) {
      return name.ends_with(end) || name.find(end + "_") != std::string::npos;
    };
    EXPECT_TRUE(std::any_of(names.begin(), names.end(), is_of_format))
        << format.name << ": instantiate EveryReader (log_intervals.h) for it";
  }
}

std::vector<Program> programs_with_devices() {
  std::vector<Program> programs;
  for (const Program& program : kPrograms)
    if (program.start != nullptr || program.format == logs::LogFormat::kTorchTitan) programs.push_back(program);
  return programs;
}
INSTANTIATE_TEST_SUITE_P(Logs, EveryRestart, testing::ValuesIn(programs_with_devices()), program_name);

}  // namespace
}  // namespace lockstep::analysis::intervals
