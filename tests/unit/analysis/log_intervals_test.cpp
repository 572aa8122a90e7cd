// Logs that print a line every k steps, of every program, with evaluations between the steps and without: what a report
// and a proposal make of them must be what was generated, however often lines come.
#include "unit/analysis/log_intervals.h"

#include <algorithm>

#include "analysis/document.h"
#include "analysis/proposal.h"
#include "core/strings.h"

namespace lockstep::analysis::intervals {
namespace {

std::string openclip_log(const Timeline& run) {
  const int64_t in_epoch = run.steps_per_evaluation > 0 ? run.steps_per_evaluation : run.num_steps;
  std::string text;
  for (int64_t first = 0, epoch = 0; first < run.num_steps; first += in_epoch, ++epoch) {
    int64_t before = first;
    const int64_t last = std::min(first + in_epoch, run.num_steps);
    for (int64_t step = first + 1; step <= last; ++step) {
      if ((step - first - 1) % run.steps_per_line != 0 && step != first + in_epoch) continue;
      const double mean_s = run.mean_s(std::exchange(before, step), step),
                   rate = static_cast<double>(run.global_batch()) / run.step_s(step);
      text += fmt::format(
          "{} | INFO | Train Epoch: {} [{}/{} (1%)] Data (t): 0.001 Batch (t): {:.3f}, {:.6g}/s, "
          "{:.6g}/s/gpu LR: 0.000001 Logit Scale: 14.280 Loss: 8.0950 (8.1950)\n",
          stamp(run.end_s[static_cast<size_t>(step)], ",", false), epoch, (step - first) * run.global_batch(),
          in_epoch * run.global_batch(), mean_s, rate, rate / static_cast<double>(run.devices()));
    }
    if (run.is_evaluated_after(last))
      text += fmt::format("{} | INFO | Eval Epoch: {} clip_val_loss: 3.1000\n",
                          stamp(run.end_s[static_cast<size_t>(last)] + kEvaluationS, ",", false), epoch + 1);
  }
  return text;
}

std::string openclip_start(const Timeline& run) {
  const std::string begin = stamp(0, ",", false) + " | INFO | ";
  return fmt::format("{0}Params:\n{0}  accum_freq: 1\n{0}  batch_size: {1}\n{0}  world_size: {2}\n", begin,
                     run.global_batch() / run.devices(), run.devices());
}

std::string megatron_log(const Timeline& run) {
  return means(run.lines(), [&](int64_t from, int64_t to) {
    std::string text = fmt::format(
        " [{}] iteration {:8}/{:8} | consumed samples: {:12} | elapsed time per iteration (ms): {:.1f} | "
        "global batch size: {} | lm loss: 9.0E+00 | number of skipped iterations: 0 | number of nan "
        "iterations: 0 |\n",
        stamp_after(run, to), run.steps_before + to, run.num_steps, to * run.global_batch(),
        1000 * run.mean_s(from, to), run.global_batch());
    if (run.is_evaluated_after(to))
      text += fmt::format(" validation loss at iteration {} | lm loss value: 3.0E+00 | lm loss PPL: 2.0E+01 | \n", to);
    return text;
  });
}

std::string megatron_start(const Timeline& run) {
  return fmt::format(
      "using world size: {0}, data-parallel size: {0}, context-parallel size: 1, tensor-model-parallel size: 1, "
      "pipeline-model-parallel size: 1\n",
      run.devices());
}

/// The time of the step that the line names, not of those before it.
std::string deepspeed_log(const Timeline& run) {
  std::string text = fmt::format("[{0}] [INFO] [config.py:1000:print]   train_batch_size ............. {1}\n", stamp(0),
                                 run.global_batch());
  for (const int64_t step : run.lines())
    text += fmt::format(
        "[{}] [INFO] [timer.py:264:stop] epoch=0/micro_step={}/global_step={}, "
        "RunningAvgSamplesPerSec={}, CurrSamplesPerSec={}, MemAllocated=1.25GB, MaxMemAllocated=3.5GB\n",
        stamp_after(run, step), step, run.steps_before + step, static_cast<double>(run.global_batch()) / kStepS,
        static_cast<double>(run.global_batch()) / run.step_s(step));
  return text;
}

std::string deepspeed_start(const Timeline& run) {
  return fmt::format("[{}] [INFO] [config.py:1000:print]   world_size ................... {}\n", stamp(0),
                     run.devices());
}

/// A bar that is drawn every k steps and names the last one.
std::string nemo_bar_log(const Timeline& run) {
  std::string text;
  for (const int64_t step : run.lines())
    text += fmt::format(
        "[NeMo I {} progress:12] Epoch 0: :  50%|#####     | {}/{} [03:59<03:59, "
        "reduced_train_loss=7.310, global_step={:.2f}, consumed_samples={:.1f}, "
        "train_step_timing in s={:.3f}]\n",
        stamp_after(run, step), step, run.num_steps, static_cast<double>(step - 1),
        static_cast<double>(step * run.global_batch()), run.step_s(step));
  return text;
}

/// Lines of means: consumed_samples is one, too.
std::string nemo_lines_log(const Timeline& run) {
  return means(run.lines(), [&](int64_t from, int64_t to) {
    return fmt::format(
        "{} Training epoch 0, iteration {}/{} | lr: 0.0003 | global_batch_size: {} | global_step: {} | "
        "reduced_train_loss: 11.03 | train_step_timing in s: {:.4g} | consumed_samples: {:.4g}\n",
        stamp_after(run, to), to, run.num_steps, run.global_batch(), to - 1, run.mean_s(from, to),
        static_cast<double>((from + 1 + to) * run.global_batch()) / 2);
  });
}

/// Validation has lines of the same kind, and the rate is counted anew behind it.
std::string torchtitan_log(const Timeline& run) {
  std::string text = fmt::format(
      "[titan] {0} - root - INFO - Building 1-D device mesh with ['dp_shard'], [{1}]\n"
      "[titan] {0} - root - INFO - Trainer is initialized with local batch size 4, global "
      "batch size {2}, gradient accumulation steps 1, sequence length {3}, total steps 100\n",
      stamp(0), run.devices(), run.global_batch(), kSequence);
  const double tokens_per_device =
      static_cast<double>(run.global_batch() * kSequence) / static_cast<double>(run.devices());
  int64_t before = 0;
  for (int64_t step = 1; step <= run.num_steps; ++step) {
    if (step == 1 || step % run.steps_per_line == 0)
      text += fmt::format(
          "[titan] {} - root - INFO - step: {}  loss: 7.1032  grad_norm: 1.9  memory: 41.2GiB(52%)  "
          "tps: {:.0f}  tflops: 281.3  mfu: 28.4%\n",
          stamp_after(run, step), run.steps_before + step,
          tokens_per_device / run.mean_s(std::exchange(before, step), step));
    if (run.is_evaluated_after(step)) {
      before = step;
      text += fmt::format(
          "[titan] {} - root - INFO - validate step: {}  loss: 6.9000  memory: 41.2GiB(52%)  tps: "
          "99,123\n",
          stamp(run.end_s[static_cast<size_t>(step)] + kEvaluationS), step);
    }
  }
  return text;
}

/// The value is of the step, the mean in parentheses of the epoch.
std::string imagenet_log(const Timeline& run) {
  const int64_t in_epoch = run.steps_per_evaluation > 0 ? run.steps_per_evaluation : run.num_steps;
  std::string text;
  for (int64_t step = 1; step <= run.num_steps; ++step) {
    const int64_t epoch = (step - 1) / in_epoch, batch = step - epoch * in_epoch;
    if ((batch - 1) % run.steps_per_line == 0)
      text += fmt::format(
          "{} Epoch: [{}][{:3}/{}]\tTime  {:.3f} ( {:.3f})\tData  0.001 ( 0.001)\tLoss 6.9e+00 "
          "(6.9e+00)\tAcc@1   0.39 (  0.20)\tAcc@5   1.50 (  1.10)\n",
          stamp_after(run, step), epoch, batch, in_epoch, run.step_s(step), run.mean_s(epoch * in_epoch, step));
    if (run.is_evaluated_after(step))
      text +=
          fmt::format("{}  * Acc@1 71.123 Acc@5 90.456\n", stamp(run.end_s[static_cast<size_t>(step)] + kEvaluationS));
  }
  return text;
}

/// The rate is a mean since the start, and that of one worker; batch and total are those of all.
std::string tf_cnn_lines(const Timeline& run, int64_t num_workers, bool has_total) {
  std::string text = fmt::format(
      "Model:       resnet50\nBatch size:  {} global\n             {} per device\nDevices:     ['gpu'{}]\nVariables:   "
      "{}\n",
      run.global_batch(), kSamplesPerNode / kDevicesPerNode,
      core::replace_all(std::string(static_cast<size_t>(run.devices() - 1), ','), ",", ", 'gpu'"),
      num_workers > 1 ? "horovod" : "replicated");
  double sum_s = 0;
  for (int64_t step = 1; step <= run.num_steps; ++step) {
    sum_s += run.step_s(step);
    if (step == 1 || step % run.steps_per_line == 0)
      text += fmt::format("{} {}\timages/sec: {:.1f} +/- 4.2 (jitter = 21.0)\t7.123\n", stamp_after(run, step), step,
                          static_cast<double>(step * run.global_batch()) / sum_s / static_cast<double>(num_workers));
  }
  if (has_total)
    text += fmt::format("total images/sec: {:.2f}\n", static_cast<double>(run.num_steps * run.global_batch()) / sum_s);
  return text;
}
std::string tf_cnn_log(const Timeline& run) { return tf_cnn_lines(run, 1, true); }
std::string tf_cnn_horovod_log(const Timeline& run) { return tf_cnn_lines(run, run.devices(), true); }
std::string tf_cnn_unfinished_log(const Timeline& run) { return tf_cnn_lines(run, run.devices(), false); }

std::string mlperf_event(double at_s, const std::string& key, const std::string& value, const std::string& metadata) {
  return fmt::format(
      ":::MLLOG {{\"namespace\": \"\", \"time_ms\": {}, \"event_type\": \"POINT_IN_TIME\", \"key\": "
      "\"{}\", \"value\": {}, \"metadata\": {{{}}}}}\n",
      1769860800000 + std::llround(at_s * 1000), key, value, metadata);
}

/// `samples_per_count`: 1: the steps count steps, else the samples so far.
std::string mlperf_stats(const Timeline& run, int64_t samples_per_count) {
  std::string text = mlperf_event(0, "global_batch_size", std::to_string(run.global_batch()), "");
  for (const int64_t step : run.lines())
    text += mlperf_event(run.end_s[static_cast<size_t>(step)], "tracked_stats",
                         fmt::format("{{\"train_step_time\": {}, \"reduced_train_loss\": 6.9}}", run.step_s(step)),
                         fmt::format("\"step\": {}", step * samples_per_count));
  return text;
}
std::string mlperf_steps_log(const Timeline& run) { return mlperf_stats(run, 1); }
std::string mlperf_samples_log(const Timeline& run) { return mlperf_stats(run, run.global_batch()); }

/// No step times: blocks of k steps, as long as they have no evaluation within.
std::string mlperf_blocks_log(const Timeline& run) {
  std::string text = mlperf_event(0, "global_batch_size", std::to_string(run.global_batch()), "");
  int64_t before = 0;
  for (int64_t step = 1; step <= run.num_steps; ++step) {
    if (step % run.steps_per_line != 0 && !run.is_evaluated_after(step)) continue;
    const auto samples = [&](int64_t done) { return fmt::format("\"samples_count\": {}", done * run.global_batch()); };
    text += mlperf_event(run.begin_s(before + 1), "block_start", "null", samples(before));
    text += mlperf_event(run.end_s[static_cast<size_t>(step)], "block_stop", "null", samples(step));
    before = step;
  }
  return text;
}

std::string csv_log(const Timeline& run) {
  return "step,step_time_s,global_batch,unix_time\n" + means(run.lines(), [&](int64_t from, int64_t to) {
           return fmt::format("{},{:.4f},{},{:.3f}\n", to - 1, run.mean_s(from, to), run.global_batch(),
                              1.7e9 + run.end_s[static_cast<size_t>(to)]);
         });
}

constexpr Program kPrograms[] = {{"openclip", logs::LogFormat::kOpenClip, openclip_log, openclip_start},
                                 {"megatron", logs::LogFormat::kMegatron, megatron_log, megatron_start},
                                 {"deepspeed", logs::LogFormat::kDeepSpeed, deepspeed_log, deepspeed_start},
                                 {"nemo_bar", logs::LogFormat::kNemo, nemo_bar_log},
                                 {"nemo_lines", logs::LogFormat::kNemo, nemo_lines_log},
                                 {"torchtitan", logs::LogFormat::kTorchTitan, torchtitan_log},
                                 {"imagenet", logs::LogFormat::kImageNet, imagenet_log},
                                 {"tf_cnn", logs::LogFormat::kTfCnn, tf_cnn_log},
                                 {"tf_cnn_horovod", logs::LogFormat::kTfCnn, tf_cnn_horovod_log},
                                 {"tf_cnn_unfinished", logs::LogFormat::kTfCnn, tf_cnn_unfinished_log},
                                 {"mlperf_steps", logs::LogFormat::kMlperf, mlperf_steps_log},
                                 {"mlperf_samples", logs::LogFormat::kMlperf, mlperf_samples_log},
                                 {"mlperf_blocks", logs::LogFormat::kMlperf, mlperf_blocks_log},
                                 {"csv", logs::LogFormat::kCsv, csv_log}};

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
