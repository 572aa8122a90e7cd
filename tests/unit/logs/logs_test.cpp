#include "logs/logs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"
#include "support/fuzz.h"
#include "unit/logs/read_one.h"

namespace lockstep::logs {
namespace {

namespace fs = std::filesystem;

fs::path golden(const std::string& name) { return fs::path(LOCKSTEP_GOLDEN_DIR) / "logs" / name; }

struct Golden {
  const char* file;
  LogFormat format;
};
constexpr Golden kGolden[] = {{"openclip.log", LogFormat::kOpenClip},         {"nemo_bar.out", LogFormat::kNemo},
                              {"nemo_lines.out", LogFormat::kNemo},           {"megatron.log", LogFormat::kMegatron},
                              {"torchtitan.log", LogFormat::kTorchTitan},     {"deepspeed.log", LogFormat::kDeepSpeed},
                              {"imagenet.log", LogFormat::kImageNet},         {"mlperf.log", LogFormat::kMlperf},
                              {"mlperf_blocks.log", LogFormat::kMlperf},      {"tf_cnn.log", LogFormat::kTfCnn},
                              {"all_reduce_perf.txt", LogFormat::kNcclTests}, {"steps.csv", LogFormat::kCsv}};

/// A log of the given text, read.
class LogText {
 public:
  explicit LogText(const std::string& text, const std::string& name = "run.log") : path_(folder_.path() / name) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  record::RunData read(std::optional<LogFormat> format = std::nullopt, const record::MetaOptions& meta = {}) const {
    return read_one(path_, format, {.meta = meta});
  }
  const fs::path& path() const { return path_; }

 private:
  core::TempDir folder_{};
  fs::path path_;
};

/// The golden log with its text changed.
record::RunData read_changed(const std::string& file, const std::string& from, const std::string& to,
                             const record::MetaOptions& meta = {}) {
  const std::string text = core::read_file(golden(file)), changed = core::replace_all(text, from, to);
  EXPECT_NE(text, changed) << file << " holds no '" << from << "'";
  return LogText(changed, file).read(std::nullopt, meta);
}

bool has_problem(const record::RunData& run, const std::string& words) {
  for (const std::string& problem : run.problems)
    if (problem.find(words) != std::string::npos) return true;
  ADD_FAILURE() << "no problem says '" << words << "'; there are: " << core::join(run.problems, " | ");
  return false;
}

using Steps = std::vector<int64_t>;
using Lengths = std::vector<int32_t>;

TEST(Logs, EveryGoldenFileIsGuessedAndReadWithoutComplaint) {
  for (const Golden& file : kGolden) {
    EXPECT_EQ(guess_format(golden(file.file)), file.format) << file.file;
    const record::RunData run = read_one(golden(file.file));
    EXPECT_EQ(run.format, to_text(file.format));
    EXPECT_EQ(run.num_rejected_lines, 0) << file.file;
    EXPECT_GT(run.steps.size() + run.collective_points.size(), 5u) << file.file;
  }
}

TEST(Logs, OpenClipTakesMeanTimesAndCountsStepsBySamples) {
  const record::RunData run = read_one(golden("openclip.log"));
  EXPECT_TRUE(run.problems.empty()) << core::join(run.problems, "\n");
  EXPECT_EQ(run.setup.model, "ViT-B-32");
  EXPECT_EQ(run.setup.precision, "amp_bf16");
  EXPECT_EQ(run.setup.is_synthetic, false);
  EXPECT_EQ(run.setup.devices, 8);
  EXPECT_EQ(run.setup.global_batch, 2048);
  EXPECT_EQ(run.setup.samples_per_device, 256);
  EXPECT_EQ(run.steps.step, (Steps{0, 100, 200, 300, 400, 499, 500, 600, 700, 800, 900, 999}));
  EXPECT_EQ(run.steps.num_steps, (Lengths{1, 100, 100, 100, 100, 99, 1, 100, 100, 100, 100, 99}));
  EXPECT_DOUBLE_EQ(run.steps.step_ms[0], 21417);
  EXPECT_DOUBLE_EQ(run.steps.step_ms[6], 2105);
  EXPECT_DOUBLE_EQ(run.steps.step_ms[7], 408);
  EXPECT_DOUBLE_EQ(run.steps.data_wait_ms[7], 21);
  EXPECT_EQ(run.steps.samples[7], 2048);
  EXPECT_EQ(run.steps.samples_seen[7], 601 * 2048);
  EXPECT_EQ(run.steps.epoch[7], 1);
  EXPECT_DOUBLE_EQ(run.steps.loss[7], 6.5950);
  EXPECT_DOUBLE_EQ(run.steps.logged_samples_per_s[7], 5174.85);  // of the last step: kept, not used
  EXPECT_GT(std::abs(2048 / 0.408 / 5174.85 - 1), 0.02);
  ASSERT_EQ(run.results.size(), 2u);
  EXPECT_EQ(run.results[1].epoch, 2);
  EXPECT_EQ(run.results[0].step, 500);
  EXPECT_EQ(run.results[1].step, 1000);
  EXPECT_EQ(run.results[1].metrics[1], (std::pair<std::string, double>{"imagenet-zeroshot-val-top1", 0.15}));
  ASSERT_TRUE(run.started_s && run.ended_s);
  EXPECT_GT(*run.ended_s - *run.started_s, 300);
}

TEST(Logs, OpenClipWithoutItsOptionsInfersTheBatchAndDevices) {
  std::string text;
  for (const std::string& line : core::split(core::read_file(golden("openclip.log")), "\n"))
    if (line.find("Train Epoch") != std::string::npos) text += line + "\n";
  const record::RunData run = LogText(text).read();
  EXPECT_EQ(run.setup.global_batch, 2048);
  EXPECT_EQ(run.setup.devices, 8);
  EXPECT_EQ(run.steps.step.back(), 999);
  has_problem(run, "global batch, 2048, was inferred");
}

TEST(Logs, OpenClipFindsItsOptionsBesideAnOutLog) {
  const core::TempDir folder;
  const fs::path run_folder = folder.path() / "htsat_tiny_bs616_af1_n2";
  fs::create_directories(run_folder);
  std::ofstream(run_folder / "params.txt") << "accum_freq: 1\nbatch_size: 616\nmodel: "
                                              "HTSAT-tiny-Roberta-base\nworld_size: 8\ndataset_type: synthetic-audio\n";
  std::ofstream(run_folder / "out.log")
      << "2026-01-31,12:00:00 | INFO | Train Epoch: 0 [   4928/1000384 (0%)] Data (t): 0.1 Batch (t): 9.000, 547.5/s, "
         "68.4/s/gpu LR: 0.0003 Logit Scale: 14.3 Loss: 8.3 (8.3)\n"
      << "2026-01-31,12:01:40 | INFO | Train Epoch: 0 [ 497728/1000384 (50%)] Data (t): 0.001 Batch (t): 0.990, "
         "4977.7/s, 622.2/s/gpu LR: 0.0003 Logit Scale: 14.3 Loss: 8.1 (8.2)\n";
  const record::RunData run = read_one(run_folder, std::nullopt,
                                       {.meta = {.path_pattern = "bs(?<batch>\\d+)_af(?<accum>\\d+)_n(?<nodes>\\d+)"}});
  EXPECT_EQ(run.name, "htsat_tiny_bs616_af1_n2");
  EXPECT_EQ(run.setup.model, "HTSAT-tiny-Roberta-base");
  EXPECT_EQ(run.setup.nodes, 2);
  EXPECT_EQ(run.setup.is_synthetic, true);
  EXPECT_EQ(run.setup.samples_per_device, 616);
  EXPECT_EQ(run.setup.global_batch, 4928);
  EXPECT_EQ(run.steps.step, (Steps{0, 100}));
  EXPECT_EQ(run.steps.num_steps, (Lengths{1, 100}));
  EXPECT_TRUE(run.problems.empty()) << core::join(run.problems, "\n");
}

TEST(Logs, NemoBarsAndLines) {
  const record::RunData bar = read_one(golden("nemo_bar.out"));
  ASSERT_EQ(bar.steps.size(), 12u);
  EXPECT_EQ(bar.steps.step_ms[0], 28500);
  EXPECT_EQ(bar.steps.step_ms[1], 3590);
  EXPECT_EQ(bar.steps.num_steps, Lengths(12, 1));
  EXPECT_EQ(bar.setup.global_batch, 256);
  EXPECT_EQ(bar.steps.samples_seen[11], 12 * 256);
  EXPECT_NEAR(bar.steps.loss[11], 7.7, 1e-9);
  const record::RunData lines = read_one(golden("nemo_lines.out"));
  ASSERT_EQ(lines.steps.size(), 20u);
  EXPECT_EQ(lines.setup.global_batch, 128);
  EXPECT_DOUBLE_EQ(lines.steps.step_ms[5], 4510);
  EXPECT_EQ(lines.steps.logged_tflops_per_device[5], 205);
  const record::RunData recipe =
      LogText(
          "Epoch 0: : 100%|\xe2\x96\x88\xe2\x96\x88| 100/100 [07:57<00:00, reduced_train_loss=7.310, "
          "global_step=99.00, consumed_samples=25600.0, train_step_timing in s=3.590]\n")
          .read();
  ASSERT_EQ(recipe.steps.size(),
            1u);  // the line of the recipe that the reader must take (its protocol is this last step)
  EXPECT_EQ(recipe.steps.step[0], 99);
  EXPECT_EQ(recipe.steps.step_ms[0], 3590);
  EXPECT_EQ(recipe.setup.global_batch, 256);
}

TEST(Logs, MegatronWithARestartAndASwitchOfUnits) {
  const record::RunData run = read_one(golden("megatron.log"));
  EXPECT_EQ(run.steps.step, (Steps{9, 19, 29, 39, 49, 59, 69, 79}));
  EXPECT_EQ(run.steps.attempt, (Lengths{1, 1, 1, 1, 2, 2, 2, 2}));
  EXPECT_EQ(run.steps.num_steps, Lengths(8, 10));
  EXPECT_NEAR(run.steps.step_ms[1], 814.4, 1e-9);
  EXPECT_NEAR(run.steps.step_ms[4], 835.0, 1e-9);  // printed in seconds
  EXPECT_EQ(run.steps.samples[4], 64);
  EXPECT_EQ(run.steps.tokens[4], 64 * 4096);
  EXPECT_DOUBLE_EQ(run.steps.logged_tflops_per_device[1], 181.8);
  EXPECT_DOUBLE_EQ(run.steps.loss[1], 8.9);
  EXPECT_EQ(run.num_attempts, 2);
  EXPECT_EQ(run.setup.devices, 64);
  EXPECT_EQ(run.setup.layout, "dp=2 tp=8 pp=4");
  EXPECT_EQ(run.setup.samples_per_device, 32);
  EXPECT_EQ(run.setup.precision, "bf16");
  EXPECT_EQ(run.setup.sample_unit, "sequences");
  has_problem(run, "2 starts; 2 lines");
  has_problem(run, "skipped iterations");
  EXPECT_EQ(run.steps.num_skipped, (Lengths{0, 1, 0, 0, 0, 0, 0, 0}));
  has_problem(run, "unit of the step times changes");
}

TEST(Logs, MegatronTellsItsSizesInItsFirstLineInEverySpelling) {
  const std::string step =
      "iteration 10/ 600 | consumed samples: 1280 | elapsed time per iteration (ms): 25.5 | global batch size: 128 | "
      "lm loss: 8.9 |\n";
  const record::RunData run =
      LogText(
          "using world size: 32, data-parallel size: 2, context-parallel size: 2, hierarchical context-parallel sizes: "
          "None, "
          "encoder-tensor-model-parallel size: 7, tensor-model-parallel size: 4, pipeline-model-parallel size: 2\n" +
          step)
          .read(LogFormat::kMegatron);
  EXPECT_EQ(run.setup.devices, 32);
  EXPECT_EQ(run.setup.layout, "dp=2 tp=4 pp=2 cp=2");
  EXPECT_EQ(run.setup.samples_per_device, 64);
  const record::RunData old = LogText(
                                  "using world size: 16, data-parallel-size: 4, tensor-model-parallel size: 2, "
                                  "pipeline-model-parallel size: 2 \n" +
                                  step)
                                  .read(LogFormat::kMegatron);
  EXPECT_EQ(old.setup.devices, 16);
  EXPECT_EQ(old.setup.layout, "dp=4 tp=2 pp=2");
  EXPECT_EQ(old.setup.samples_per_device, 32);
  const record::RunData odd =
      LogText("using world size: many, data-parallel size: 0, tensor-model-parallel size: -1\n" + step)
          .read(LogFormat::kMegatron);
  EXPECT_FALSE(odd.setup.devices);
  EXPECT_FALSE(odd.setup.samples_per_device);
}

TEST(Logs, TorchTitanTimesFromTokenRatesOrElseFromTimeStamps) {
  const record::RunData run = read_one(golden("torchtitan.log"));
  EXPECT_TRUE(run.problems.empty()) << core::join(run.problems, "\n");
  EXPECT_EQ(run.setup.devices, 8);
  EXPECT_EQ(run.setup.global_batch, 16);
  EXPECT_EQ(run.setup.sequence_length, 8192);
  ASSERT_EQ(run.steps.size(), 11u);
  EXPECT_EQ(run.steps.num_steps[0], 1);
  EXPECT_EQ(run.steps.num_steps[1], 9);
  EXPECT_EQ(run.steps.num_steps[2], 10);
  EXPECT_NEAR(run.steps.step_ms[0], 6500, 2);  // tps is printed as a whole number
  EXPECT_NEAR(run.steps.step_ms[2], 3020, 1);
  EXPECT_EQ(run.steps.tokens[2], 16 * 8192);
  EXPECT_EQ(run.steps.logged_tflops_per_device[2], 281.3);
  const record::RunData stamps = read_changed("torchtitan.log", "sequence length 8192, ", "");
  ASSERT_EQ(stamps.steps.size(), 10u);
  EXPECT_NEAR(stamps.steps.step_ms[1], 3020, 1);
  has_problem(stamps, "differences of time stamps (10 times)");
  has_problem(stamps, "first step has no time");
  const record::RunData told =
      read_changed("torchtitan.log", "sequence length 8192, ", "", {.values = {{"sequence_length", "8192"}}});
  EXPECT_EQ(told.steps.step_ms, run.steps.step_ms);
}

TEST(Logs, DeepSpeedRatesNeedTheBatchAndCollectivesAddUp) {
  const record::RunData run = read_one(golden("deepspeed.log"));
  EXPECT_EQ(run.setup.global_batch, 256);
  EXPECT_EQ(run.setup.devices, 16);
  ASSERT_EQ(run.steps.size(), 10u);
  EXPECT_EQ(run.steps.step[0], 9);
  EXPECT_EQ(run.steps.num_steps[3], 1);
  EXPECT_NEAR(run.steps.step_ms[0], 256 / 121.0 * 1000, 1e-6);
  ASSERT_EQ(run.collectives.size(), 1u);
  EXPECT_EQ(run.collectives[0].kind, "all_reduce");
  EXPECT_EQ(run.collectives[0].bytes, 25.0 * 1024 * 1024);
  EXPECT_EQ(run.collectives[0].count, 10);
  EXPECT_DOUBLE_EQ(run.collectives[0].time_ms, 15.0);
  const record::RunData unknown = read_changed("deepspeed.log", "train_batch_size", "other");
  EXPECT_EQ(unknown.steps.size(), 0u);
  has_problem(unknown, "without the global batch");
  EXPECT_EQ(
      read_changed("deepspeed.log", "train_batch_size", "other", {.values = {{"global_batch", "256"}}}).steps.step_ms,
      run.steps.step_ms);
  EXPECT_EQ(
      read_changed("deepspeed.log", "RunningAvgSamplesPerSec=119.750000", "RunningAvgSamplesPerSec=-inf").steps.size(),
      10u);
}

TEST(Logs, ImageNetTakesTheStepNotTheRunningMean) {
  const record::RunData run =
      read_one(golden("imagenet.log"), std::nullopt, {.meta = {.values = {{"global_batch", "1024"}}}});
  EXPECT_TRUE(run.problems.empty()) << core::join(run.problems, "\n");
  ASSERT_EQ(run.steps.size(), 26u);
  EXPECT_EQ(run.steps.step[0], 0);
  EXPECT_EQ(run.steps.step[12], 120);
  EXPECT_EQ(run.steps.step[13], 125);  // first of the second epoch
  EXPECT_EQ(run.steps.epoch[13], 1);
  EXPECT_EQ(run.steps.step_ms[0], 6200);
  EXPECT_EQ(run.steps.step_ms[3], 413);  // its running mean says 600
  EXPECT_EQ(run.steps.num_steps, Lengths(26, 1));
  EXPECT_EQ(run.steps.samples[3], 1024);
  EXPECT_DOUBLE_EQ(run.steps.loss[1], 6.845);
  EXPECT_EQ(run.setup.sample_unit, "images");
  ASSERT_EQ(run.results.size(), 2u);
  EXPECT_EQ(run.results[1].metrics, (record::NamedNumbers{{"top1_pct", 15}, {"top5_pct", 25}}));
  has_problem(read_changed("imagenet.log", "Time  0.413 ( 0.462)", "Time  0.413 ( 0.562)"),
              "epoch 0: the printed steps take 413.0 ms on average, all steps of the epoch 515.0 ms");
  std::string older = core::read_file(golden("imagenet.log"));  // counts batches from 0
  for (int batch = 1; batch <= 121; batch += 10)
    older =
        core::replace_all(std::move(older), fmt::format("[{:>3}/125]", batch), fmt::format("[{:>3}/125]", batch - 1));
  EXPECT_EQ(LogText(older).read().steps.step, run.steps.step);
}

TEST(Logs, ImageNetMeansTellTheTimeOfWholeEpochs) {
  const std::string log = core::read_file(golden("imagenet.log"));
  const record::RunData run = LogText(log).read();
  ASSERT_EQ(run.epoch_sums.size(), 2u);
  for (const auto& [epoch, sum] : run.epoch_sums) {
    EXPECT_EQ(sum.num_steps, 125) << epoch;
    EXPECT_NEAR(sum.seconds, 6.2 + 124 * 0.413, 0.2) << epoch;  // the mean is printed to a millisecond: 0.06 s of 121
  }
  const auto sums_of = [](const std::string& text) { return LogText(text).read().epoch_sums; };
  const std::string broken_off = log.substr(0, log.rfind("Epoch: [1][ 71"));
  EXPECT_EQ(sums_of(broken_off).size(), 1u) << "half an epoch is none";
  EXPECT_TRUE(sums_of(core::replace_all(log, "( 0.462)", "( 0.046)")).empty()) << "the last digit is worth 1 %";
  std::string each = "=> creating model 'resnet18'\n";  // every step is printed: their sum needs no mean
  for (int batch = 1; batch <= 40; ++batch)
    each += fmt::format(
        "Epoch: [0][{:>2}/40]\tTime  0.00{} ( 0.006)\tData  0.001 ( 0.001)\tLoss 6.8e+00 (6.9e+00)\t"
        "Acc@1   0.49 (  0.25)\tAcc@5   1.50 (  1.10)\n",
        batch, 4 + batch % 2);
  ASSERT_EQ(sums_of(each).size(), 1u);
  EXPECT_NEAR(sums_of(each).at(0).seconds, 0.18, 1e-9);
}

TEST(Logs, MlperfStatsUnderThreeSpellingsAndBlocks) {
  const record::RunData run = read_one(golden("mlperf.log"));
  ASSERT_EQ(run.steps.size(), 20u);
  EXPECT_EQ(run.steps.step[0], 10);
  for (size_t row = 0; row < 20; ++row)
    EXPECT_NEAR(run.steps.step_ms[row], 9800 + 10.0 * static_cast<double>(row + 1), 1e-6);
  EXPECT_EQ(run.steps.num_steps[5], 10);
  EXPECT_EQ(run.setup.model, "gpt3");
  EXPECT_EQ(run.setup.system, "DGX");
  EXPECT_EQ(run.setup.global_batch, 1536);
  EXPECT_EQ(run.steps.tokens[3], 1536.0 * 2048);
  EXPECT_EQ(run.state, "finished");
  ASSERT_EQ(run.results.size(), 1u);
  EXPECT_EQ(run.results[0].step, 199);
  const record::RunData blocks = read_one(golden("mlperf_blocks.log"));
  EXPECT_EQ(blocks.steps.step, (Steps{9, 19, 29, 39, 49, 59}));
  EXPECT_EQ(blocks.steps.num_steps, Lengths(6, 10));
  EXPECT_NEAR(blocks.steps.step_ms[3], 503, 1e-4);  // of two Unix times in double precision
  EXPECT_EQ(blocks.state, "failed");
}

/// A log of MLPerf without steps: `facts` in front, then epochs of 30 s with an evaluation of 4 s inside, or behind.
std::string mlperf_epochs(const std::string& facts, const char* start, const char* stop, bool is_inside) {
  int64_t time_ms = 1'700'000'000'000;
  const auto event = [&](const std::string& key, const std::string& value, const std::string& metadata) {
    return fmt::format(R"(:::MLLOG {{"time_ms": {}, "key": "{}", "value": {}, "metadata": {}}})", time_ms, key, value,
                       metadata) +
           "\n";
  };
  std::string text;
  for (const std::string& fact : core::split(facts, " "))
    if (!fact.empty()) text += event(fact.substr(0, fact.find('=')), fact.substr(fact.find('=') + 1), "{}");
  for (int epoch = 1; epoch <= 3; ++epoch) {
    text += event(start, "null", fmt::format(R"({{"first_epoch_num": {}, "epoch_count": 1}})", epoch));
    time_ms += 30'000;
    const std::string end = event(stop, "null", "{}");
    if (!is_inside) text += end;
    text += event("eval_start", "null", "{}");
    time_ms += 4'000;
    text += event("eval_accuracy", "0.5", "{}") + event("eval_stop", "null", "{}");
    if (is_inside) text += event(stop, "null", "{}");
  }
  return text;
}

TEST(Logs, MlperfEpochsTellTheThroughputWhereTheirSamplesAreTold) {
  const core::TempDir folder;
  const auto path = folder.path() / "epochs.log";
  const auto read = [&](const std::string& text) {
    core::write_file_atomic(path, text);
    return read_one(path);
  };
  for (const bool is_inside : {false, true})
    for (const auto& [start, stop] : {std::pair{"epoch_start", "epoch_stop"}, {"block_start", "block_stop"}}) {
      const record::RunData run =
          read(mlperf_epochs("global_batch_size=1000 train_samples=2500", start, stop, is_inside));
      EXPECT_EQ(run.steps.step, (Steps{2, 4, 7})) << start << ": 2.5 steps an epoch, whole in three";
      ASSERT_EQ(run.steps.size(), 3u);
      for (size_t row = 0; row < 3; ++row)
        EXPECT_NEAR(run.steps.samples[row] / run.steps.step_ms[row] * 1e3, 2500.0 / 30, 1e-6) << start << is_inside;
    }
  const auto problem = [&](const std::string& facts, const char* start = "epoch_start") {
    return core::join(read(mlperf_epochs(facts, start, "epoch_stop", false)).problems, "\n");
  };
  for (const auto& [facts, words] : {std::pair{"global_batch_size=1000", "not the samples of an epoch (train_samples)"},
                                     {"train_samples=2500", "not the batch of all devices (global_batch_size"},
                                     {"", "(train_samples) and the batch of all devices (global_batch_size)"}})
    EXPECT_NE(problem(facts).find(words), std::string::npos) << problem(facts);
  EXPECT_NE(problem("global_batch_size=1000", "unknown").find("evaluations, and neither steps"), std::string::npos);
}

TEST(Logs, TfCnnMeansBecomeIntervals) {
  const record::RunData run = read_one(golden("tf_cnn.log"));
  EXPECT_EQ(run.setup.model, "resnet50");
  EXPECT_EQ(run.setup.global_batch, 256);
  EXPECT_EQ(run.setup.samples_per_device, 32);
  EXPECT_EQ(run.setup.is_synthetic, true);
  EXPECT_EQ(run.steps.step, (Steps{0, 9, 19, 29, 39, 49, 59, 69, 79, 89, 99}));
  EXPECT_EQ(run.steps.num_steps, (Lengths{1, 9, 10, 10, 10, 10, 10, 10, 10, 10, 10}));
  for (size_t row = 1; row < run.steps.size(); ++row)
    EXPECT_NEAR(run.steps.step_ms[row], 173, 2);  // the rate has five digits
}

TEST(Logs, NcclTestsRowsMayHaveOneHalfOnly) {
  const std::string head =
      "# Collective test starting: all_reduce_perf\n#       size         count      type   redop    root     time   "
      "algbw   busbw #wrong     time   algbw   busbw #wrong\n";
  const record::RunData run =
      LogText(head +
                  "     1048576        262144     float     sum      -1      N/A     N/A     N/A    "
                  "N/A    40.90   25.64   44.87      0\n"
                  "     2097152        524288     float     sum      -1    81.80   25.64   44.87      "
                  "0      N/A     N/A     N/A    N/A\n"
                  "     4194304       1048576     float     sum      -1      N/A     N/A     N/A    "
                  "N/A      N/A     N/A     N/A    N/A\n",
              "job.txt")
          .read();
  ASSERT_EQ(run.collective_points.size(), 2u);
  EXPECT_TRUE(run.collective_points[0].is_in_place);
  EXPECT_EQ(run.collective_points[0].time_us, 40.90);
  EXPECT_FALSE(run.collective_points[1].is_in_place);
  EXPECT_EQ(run.num_rejected_lines, 1) << "a row without any time";
}

TEST(Logs, NcclTestsBandwidthsFollowFromSizeAndTime) {
  const record::RunData run = read_one(golden("all_reduce_perf.txt"));
  EXPECT_TRUE(run.problems.empty()) << core::join(run.problems, "\n");
  EXPECT_EQ(run.setup.devices, 8);
  EXPECT_EQ(run.setup.nodes, 2);
  EXPECT_EQ(run.setup.device, "NVIDIA H100 80GB HBM3");
  ASSERT_EQ(run.collective_points.size(), 26u);
  const record::CollectivePoint& last = run.collective_points[24];
  EXPECT_EQ(last.kind, "all_reduce");
  EXPECT_EQ(last.type, "float");
  EXPECT_EQ(last.operation, "sum");
  EXPECT_EQ(last.num_ranks, 8);
  EXPECT_FALSE(last.is_in_place);
  EXPECT_TRUE(run.collective_points[25].is_in_place);
  EXPECT_EQ(last.bytes, 134217728);
  EXPECT_EQ(last.time_us, 810.5);
  EXPECT_NEAR(last.algbw_gbytes_per_s, 134217728 / 810.5e-6 / 1e9, 1e-9);
  EXPECT_NEAR(last.busbw_gbytes_per_s, 134217728 / 810.5e-6 / 1e9 * 2 * 7 / 8, 1e-9);
  EXPECT_EQ(last.num_wrong, 0);
  const record::RunData impossible = read_changed("all_reduce_perf.txt", "165.60", "1656.0");
  has_problem(impossible, "1 printed bandwidths do not follow");
  const std::string text = core::read_file(golden("all_reduce_perf.txt"));
  EXPECT_EQ(LogText(text, "job.txt").read().collective_points[0].kind, "all_reduce");  // by the ratio, 1.75 on 8 ranks
  EXPECT_EQ(LogText("# Collective test starting: all_gather_perf\n" + text, "job.txt").read().collective_points[0].kind,
            "all_gather");
  EXPECT_FALSE(
      LogText(core::replace_all(text, "     0\n", "   N/A\n"), "job.txt").read().collective_points[1].num_wrong);
}

TEST(Logs, CollectivesWithoutAListOfRanksTellTheirNumberOtherwise) {
  std::string text;
  for (const std::string& line : core::split(core::read_file(golden("all_reduce_perf.txt")), "\n"))
    if (line.find(" Rank ") == std::string::npos) text += line + "\n";
  const record::RunData by_ratio = LogText(text, "all_reduce_perf.txt").read();
  EXPECT_EQ(by_ratio.setup.devices, 8);
  EXPECT_EQ(by_ratio.collective_points.at(0).num_ranks, 8);
  has_problem(by_ratio, "the ratio of the two bandwidths is that of 8");
  const record::RunData unnamed = LogText(text, "job.txt").read();
  EXPECT_FALSE(unnamed.setup.devices);
  has_problem(unnamed, "how many ranks took part is unknown: give --devices");
  EXPECT_EQ(
      LogText(text, "job.txt").read(std::nullopt, {.values = {{"devices", "8"}}}).collective_points.at(0).num_ranks, 8);
  const std::string head =
      "#        size         count      type   redop    root      time   algbw   busbw  #wrong      time   algbw   "
      "busbw  #wrong\n";
  const record::RunData own =
      LogText("# lockstep bench collective: 3 ranks on cpu\n" + head + "# all-reduce\n" +
                  "     3000000        750000     float     sum      -1       N/A     N/A     N/A     "
                  "N/A   1000.00    3.00    4.00       0\n",
              "job.out")
          .read();
  EXPECT_EQ(own.setup.devices, 3);
  ASSERT_EQ(own.collective_points.size(), 1u);
  EXPECT_EQ(own.collective_points[0].num_ranks, 3);
  EXPECT_NEAR(own.collective_points[0].busbw_gbytes_per_s, 4, 1e-9);
}

TEST(Logs, CsvColumnsAreKnownByTheirNames) {
  const record::RunData run = read_one(golden("steps.csv"));
  ASSERT_EQ(run.steps.size(), 30u);
  EXPECT_EQ(run.steps.step_ms[0], 512.5);
  EXPECT_EQ(run.steps.step_ms[4], 102.25);
  EXPECT_EQ(run.steps.data_wait_ms[4], 0.5);
  EXPECT_EQ(run.steps.epoch[14], 1);
  EXPECT_EQ(run.steps.samples[4], 1024);
  EXPECT_TRUE(std::isnan(run.steps.loss[29]));
  const record::RunData seconds = LogText("iteration,time_s,rank\n0,0.5,0\n0,0.7,1\n1,0.4,1\n1,0.3,0").read();
  EXPECT_EQ(seconds.steps.step_ms,
            (std::vector<double>{700, 400}));  // the slowest rank; a last line without an end counts
  EXPECT_THROW(read_one(fs::path(LOCKSTEP_GOLDEN_DIR) / "logs" / "steps.csv", LogFormat::kLockstep), EnvironmentError);
  EXPECT_THROW(LogText("nodes,gpus,samples_per_s\n1,4,2495\n").read(LogFormat::kCsv), DataError);
  EXPECT_THROW(LogText("precision,gpus,step_time_s\nbf16,128,4.61\n").read(LogFormat::kCsv),
               DataError);  // times of points, not of steps
  EXPECT_FALSE(guess_format(LogText("precision,gpus,step_time_s\nbf16,128,4.61\n").path()));
}

TEST(Logs, ACsvFileIsKnownByItsHeaderWhateverItsColumnsAreCalled) {
  LogText nemo(
      "consumed_samples,epoch,global_batch_size,global_step,lr,reduced_train_loss,step,train_step_timing in "
      "s,val_loss\n"
      "256,0,256,0,3e-4,11.000,0,4.4596,\n512,0,256,1,3e-4,10.990,1,4.5223,\n");
  EXPECT_EQ(guess_format(nemo.path()), LogFormat::kCsv);
  EXPECT_NEAR(nemo.read().steps.step_ms.at(1), 4522.3, 1e-9);
  LogText wandb(
      "\"Step\",\"run1 - train_step_timing in s\",\"run1 - train_step_timing in s__MIN\",\"run1 - train_step_timing in "
      "s__MAX\"\n\"0\",\"4.4649\",\"4.4\",\"4.6\"\n\"1\",\"4.4638\",\"4.3\",\"4.7\"\n");
  EXPECT_EQ(guess_format(wandb.path()), LogFormat::kCsv);
  EXPECT_NEAR(wandb.read().steps.step_ms.at(1), 4463.8, 1e-9);
  EXPECT_EQ(LogText("#step,step_time_s\n0,0.5\n1,0.4\n").read().steps.step_ms, (std::vector<double>{500, 400}))
      << "a header that begins as a comment does is the header";
  EXPECT_EQ(LogText("# step_time_s, by hand\nstep,step_ms\n0,5\n1,4\n").read().steps.step_ms,
            (std::vector<double>{5, 4}));
}

TEST(Logs, OfMegatronsRampUpTheBatchOfMostLinesCounts) {
  const auto line = [](int step, int batch) {
    return fmt::format(
        " [2025-06-10 10:00:00] iteration {:8}/     100 | consumed samples: {:12} | elapsed time per iteration (ms): "
        "{:.1f} | learning rate: 1.0E-05 | global batch size: {:5} | lm loss: 9.1E+00 | number of skipped iterations:  "
        " "
        "0 | number of nan iterations:   0 |\n",
        step, step * batch, 15.0 * batch, batch);
  };
  std::string text;
  for (int step = 1; step <= 10; ++step) text += line(step, step <= 3 ? 64 : 128);
  const record::RunData ramp = LogText(text).read();
  EXPECT_EQ(ramp.setup.global_batch, 128);
  EXPECT_EQ(ramp.steps.samples.front(), 64);
  has_problem(ramp, "the global batch changes from 64 to 128");
  const record::RunData plain = LogText(line(1, 64) + line(2, 64)).read();
  EXPECT_EQ(plain.setup.global_batch, 64);
  EXPECT_TRUE(plain.problems.empty()) << core::join(plain.problems, "; ");
}

// ---- traps ----

TEST(LogTraps, ALastLineThatIsCutIsLeftOutAndTold) {
  for (const Golden& file : kGolden) {
    if (file.format == LogFormat::kCsv) continue;
    const std::string text = core::read_file(golden(file.file));
    size_t end = text.find_last_not_of("\n");  // the last lines may be no measurements: cut until one is hit
    record::RunData cut;
    bool is_reported = false;
    for (; end > text.size() / 2 && !is_reported; --end) {
      cut = LogText(text.substr(0, end), file.file).read(file.format);
      for (const std::string& problem : cut.problems)
        is_reported = is_reported || problem.find("cut off") != std::string::npos;
    }
    EXPECT_TRUE(is_reported) << file.file;
    EXPECT_EQ(cut.num_rejected_lines, 1) << file.file;
  }
}

TEST(LogTraps, ColoursReturnsAndRankPrefixesAreTakenOff) {
  const std::string line =
      "iteration 10/ 500 | consumed samples: 640 | elapsed time per iteration (ms): 812.4 | global batch size: 64 | lm "
      "loss: 9.1E+00 |";
  for (const char* prefix : {"", "3: ", "  12: ", "[rank3]: ", "[rank3]:", "rank 3: ", "rank:3 ",
                             "[default3]:", "[1,3]<stdout>:", "\x1b[32m", "\x1b[1;31m7: \x1b[0m[rank3]: "}) {
    const record::RunData run = LogText(std::string(prefix) + line + "\r\n").read(LogFormat::kMegatron);
    ASSERT_EQ(run.steps.size(), 1u) << prefix;
    EXPECT_EQ(run.steps.step[0], 9);
    EXPECT_EQ(run.steps.step_ms[0], 812.4);
  }
}

void expect_same_steps(const record::RunData& run, const record::RunData& expected, const std::string& where) {
  EXPECT_EQ(run.steps.step, expected.steps.step) << where;
  EXPECT_EQ(run.steps.num_steps, expected.steps.num_steps) << where;
  ASSERT_EQ(run.steps.size(), expected.steps.size()) << where;
  for (size_t row = 0; row < run.steps.size(); ++row)
    EXPECT_NEAR(run.steps.step_ms[row], expected.steps.step_ms[row], 1e-6 * expected.steps.step_ms[row])
        << where << " row " << row;
}

TEST(LogTraps, EveryFormatBearsTwoRanksThatPrintTheSame) {
  for (const Golden& file : kGolden) {
    if (file.format == LogFormat::kNcclTests || file.format == LogFormat::kCsv) continue;  // no rank prefixes there
    for (const char* prefixes : {"0: |1: ", "[rank0]: |[rank1]: ", "|"}) {
      const auto prefix = core::split(prefixes, "|");
      std::string text;
      for (const std::string& line : core::split(core::read_file(golden(file.file)), "\n"))
        for (const std::string& piece : core::split(line, "\r"))
          if (!piece.empty()) text += prefix[0] + piece + "\n" + prefix[1] + piece + "\n";
      const record::RunData run = LogText(text, file.file).read();
      const record::RunData expected = read_one(golden(file.file));
      expect_same_steps(run, expected, fmt::format("{} with '{}'", file.file, prefixes));
      EXPECT_EQ(run.num_attempts, expected.num_attempts) << file.file;
      EXPECT_EQ(run.num_rejected_lines, 0) << file.file;
    }
  }
}

TEST(LogTraps, EveryFormatBearsASecondStartInTheSameFile) {
  for (const Golden& file : kGolden) {
    if (file.format == LogFormat::kNcclTests) continue;
    const std::string text = core::read_file(golden(file.file));
    const record::RunData run = LogText(text + text, file.file).read();
    const record::RunData expected = read_one(golden(file.file));
    expect_same_steps(run, expected, file.file);
    EXPECT_EQ(run.num_attempts, 2 * expected.num_attempts) << file.file;
    EXPECT_EQ(run.steps.attempt.front(), expected.num_attempts + 1) << file.file;
    has_problem(run, "starts");
  }
}

TEST(LogTraps, InterleavedRanksCountAsOneAndTheSlowestRules) {
  std::string labelled, bare;
  const auto line = [](int iteration, double ms) {
    return fmt::format(
        "iteration {}/ 500 | elapsed time per iteration (ms): {:.1f} | global batch size: 64 | lm loss: 1.0 |\n",
        iteration, ms);
  };
  for (int iteration = 10; iteration <= 50; iteration += 10) {
    for (int rank : {2, 0, 3, 1}) labelled += fmt::format("{}: {}", rank, line(iteration, 800 + 10 * rank));
    bare += line(iteration, 800) + (iteration > 10 ? line(iteration - 10, 830) : "") + line(iteration, 810);
  }
  const record::RunData run = LogText(labelled).read();
  EXPECT_EQ(run.num_attempts, 1);
  EXPECT_EQ(run.steps.step, (Steps{9, 19, 29, 39, 49}));
  EXPECT_EQ(run.steps.step_ms, std::vector<double>(5, 830));
  EXPECT_EQ(run.steps.num_steps, Lengths(5, 10));
  has_problem(run, "4 ranks print into this log");
  has_problem(run, "cannot be concluded");
  const record::RunData late = LogText(bare).read();
  EXPECT_EQ(late.num_attempts, 1);
  EXPECT_EQ(late.steps.step_ms, (std::vector<double>{830, 830, 830, 830, 810}));
  has_problem(late, "4 lines came after the next step's");
  has_problem(late, "cannot be concluded");
  const record::RunData bare_in_order = LogText(line(10, 800) + line(10, 830) + line(20, 800) + line(20, 800)).read();
  EXPECT_EQ(bare_in_order.steps.step_ms, (std::vector<double>{830, 800}));
  has_problem(bare_in_order, "1 lines tell a step again with another time");
}

/// An OpenCLIP line of a step.
std::string clip_line(int step, const std::string& batch_s) {
  return fmt::format(
      "2026-01-31,12:00:{:02} | INFO | Train Epoch: 0 [ {}/102400 (1%)] Data (t): 0.031 Batch (t): {}, 3401.9/s, "
      "106.31/s/gpu LR: 0.000012 Logit Scale: 14.286 Loss: 8.3 (8.4)",
      step, 64 * step, batch_s);
}

TEST(LogTraps, LinesOfTwoRanksInOneAreUsedOnlyWhereNothingIsInDoubt) {
  const std::string usual = clip_line(1, "1.000") + "\n" + clip_line(2, "1.000") + "\n";
  // Two whole lines without a break: both are used.
  const record::RunData joined =
      LogText(usual + clip_line(3, "1.100") + clip_line(4, "1.200") + "\n" + clip_line(5, "1.000") + "\n").read();
  EXPECT_EQ(joined.steps.step, (Steps{0, 1, 2, 3, 4}));
  EXPECT_DOUBLE_EQ(joined.steps.step_ms[2], 1100);
  EXPECT_DOUBLE_EQ(joined.steps.step_ms[3], 1200);
  EXPECT_EQ(joined.num_rejected_lines, 0);
  EXPECT_TRUE(has_problem(
      joined, "in 1 line (the first is line 3) several ranks wrote into each other's text; one of them was whole"));
  // One line cut by another: the rest of the first may lie anywhere behind it, inside the second one's numbers too.
  const std::string third = clip_line(3, "1.100");
  for (const size_t cut : {third.find("/102400"), third.find("100, 3401"), third.find(" Loss")}) {
    const record::RunData run = LogText(usual + third.substr(0, cut) + clip_line(4, "9.900") + third.substr(cut) +
                                        "\n" + clip_line(5, "1.000") + "\n")
                                    .read();
    EXPECT_EQ(run.steps.step, (Steps{0, 1, 4})) << cut;
    EXPECT_EQ(run.num_rejected_lines, 1) << cut;
    EXPECT_TRUE(has_problem(run, "of the rest nobody can tell which number is whose"));
  }
  // The first is whole, the second cut; its rest comes in a line of its own.
  const std::string fourth = clip_line(4, "1.200");
  const size_t cut = fourth.find("Batch (t)") - 12;
  const record::RunData behind =
      LogText(usual + third + fourth.substr(0, cut) + "\n" + fourth.substr(cut) + "\n" + clip_line(5, "1.000") + "\n")
          .read();
  EXPECT_EQ(behind.steps.step, (Steps{0, 1, 2, 4}));
  EXPECT_EQ(behind.num_rejected_lines, 2) << "the line and the fragment";
  EXPECT_TRUE(has_problem(behind, "1 line looks like a measurement and could not be read (the first is line 4)"));
}

TEST(LogTraps, EveryFormatSeesLinesOfTwoRanksInOne) {
  for (const Golden& file : kGolden) {
    if (file.format == LogFormat::kNcclTests || file.format == LogFormat::kCsv)
      continue;  // a row has as many fields as its header
    const std::string text = core::read_file(golden(file.file));
    const record::RunData whole = read_one(golden(file.file));
    // A line in the middle of another one: neither is used, nothing else changes.
    std::vector<std::string> lines = core::split(core::replace_all(text, "\r", "\n"), "\n");
    const std::string key = file.format == LogFormat::kMlperf       ? "tracked_stats"
                            : file.format == LogFormat::kTfCnn      ? "+/-"
                            : file.format == LogFormat::kNemo       ? "train_step_timing"
                            : file.format == LogFormat::kOpenClip   ? "Batch (t):"
                            : file.format == LogFormat::kMegatron   ? "elapsed time per iteration"
                            : file.format == LogFormat::kTorchTitan ? "tps:"
                            : file.format == LogFormat::kDeepSpeed  ? "CurrSamplesPerSec"
                                                                    : "Time ";
    std::vector<size_t> steps;
    for (size_t at = 0; at < lines.size(); ++at)
      if (lines[at].find(key) != std::string::npos) steps.push_back(at);
    if (file.format == LogFormat::kMlperf && steps.size() < 4) continue;  // the log of blocks has no lines of steps
    ASSERT_GT(steps.size(), 4u) << file.file;
    const size_t first = steps[2], second = steps[3];
    std::string& line = lines[first];
    line.insert(line.find(key) + key.size() / 2, lines[second]);
    lines.erase(lines.begin() + static_cast<ptrdiff_t>(second));
    const record::RunData run = LogText(core::join(lines, "\n"), file.file).read();
    EXPECT_GE(run.num_rejected_lines, 1) << file.file;
    EXPECT_TRUE(has_problem(run, "wrote into each other's text")) << file.file;
    EXPECT_LT(run.steps.size(), whole.steps.size()) << file.file;
    EXPECT_GE(run.steps.size() + 3, whole.steps.size()) << file.file;
  }
}

TEST(LogTraps, UnitsOfACsvColumnAreNeverMixedSilently) {
  const auto error_of = [](const std::string& text) -> std::string {
    try {
      LogText(text, "steps.csv").read(LogFormat::kCsv);
    } catch (const DataError& error) {
      return error.text();
    }
    return "";
  };
  // Two columns of step times.
  EXPECT_NE(error_of("step,step_time_s,step_time_ms\n0,0.5,500\n")
                .find("the columns 'step_time_s' and 'step_time_ms' both tell the step time"),
            std::string::npos);
  // Seconds among milliseconds.
  std::string mixed = "step,step_time,samples\n";
  for (int i = 0; i < 20; ++i) mixed += fmt::format("{},{},64\n", i, i < 12 ? 512 + i : 0.5 + 0.001 * i);
  const std::string error = error_of(mixed);
  EXPECT_NE(error.find("seconds and milliseconds in one column"), std::string::npos) << error;
  EXPECT_NE(error.find("(line 14)"), std::string::npos) << error;
  EXPECT_NE(error.find("(line 2)"), std::string::npos) << error;
  std::string stalls = "step,step_time,samples\n";  // a stall of minutes now and then is none of it
  for (int i = 0; i < 40; ++i) stalls += fmt::format("{},{},64\n", i, i % 10 == 9 ? 512 : 0.5);
  EXPECT_EQ(error_of(stalls), "");
  // Numbers with their units.
  const record::RunData told =
      LogText("step,step_time\n0,512 ms\n1,0.5 s\n2,0.7\n3,0.6 s\n", "steps.csv").read(LogFormat::kCsv);
  EXPECT_EQ(told.steps.step_ms, (std::vector<double>{512, 500, 600}));
  EXPECT_EQ(told.num_rejected_lines, 1);
  EXPECT_TRUE(has_problem(told,
                          "numbers in the column 'step_time' have their unit behind them, some have none; 1 such line "
                          "was left out (the first is line 4)"));
  EXPECT_TRUE(has_problem(told, "the unit of the step times changes within the log"));
  const record::RunData other =
      LogText("step,step_time_s\n0,0.5\n1,512 ms\n2,0.6\n", "steps.csv").read(LogFormat::kCsv);
  EXPECT_EQ(other.steps.step_ms, (std::vector<double>{500, 600}));
  EXPECT_TRUE(has_problem(other,
                          "a number in the column 'step_time_s' has another unit than the column's name tells; 1 such "
                          "line was left out (the first is line 3)"));
}

TEST(LogTraps, CsvFilesOfOtherLandsAreReadOrRefusedInWords) {
  const record::RunData semicolons = LogText("step;step_time_s;samples\n0;0.5;64\n1;0.6;64\n", "steps.csv").read();
  EXPECT_EQ(semicolons.steps.step_ms, (std::vector<double>{500, 600}));
  const record::RunData tabs = LogText("step\tstep_ms\tsamples\n0\t500\t1,024\n1\t600\t1,024\n", "steps.tsv").read();
  EXPECT_EQ(tabs.steps.step_ms, (std::vector<double>{500, 600}));
  EXPECT_EQ(tabs.steps.samples[0], 1024) << "of counts a comma can only part thousands";
  for (const char* number : {"0,512", "1,5", "1,234"}) {
    try {
      LogText(fmt::format("step;step_time_s\n0;0.5\n1;{}\n", number), "steps.csv").read();
      ADD_FAILURE() << number << " was taken";
    } catch (const DataError& error) {
      EXPECT_NE(error.text().find(fmt::format("line 3, column 'step_time_s': '{}' is a number with a comma", number)),
                std::string::npos)
          << error.text();
      EXPECT_NE(error.text().find("write a decimal point"), std::string::npos) << error.text();
    }
  }
}

TEST(LogTraps, CommasInQuotesPartThousands) {
  const record::RunData run =
      LogText("step,step_ms,samples_per_s\n0,\"1,650\",\"12,345\"\n1,980.5,\"11,000.5\"\n", "steps.csv").read();
  EXPECT_EQ(run.steps.step_ms, (std::vector<double>{1650, 980.5}));
  for (const char* number : {"1,65", "0,650"}) {
    try {
      LogText(fmt::format("step,step_ms\n0,\"1,650\"\n1,\"{}\"\n", number), "steps.csv").read();
      ADD_FAILURE() << number << " was taken";
    } catch (const DataError& error) {
      EXPECT_NE(error.text().find(fmt::format("line 3, column 'step_ms': '{}' is a number with a comma", number)),
                std::string::npos)
          << error.text();
      EXPECT_NE(error.text().find("may only part thousands"), std::string::npos) << error.text();
    }
  }
}

TEST(LogTraps, SeveralRestartsInOneFile) {
  std::string text;
  const auto add = [&](int from, int to, double ms) {
    for (int iteration = from; iteration <= to; iteration += 10)
      text += fmt::format(
          "iteration {}/ 500 | elapsed time per iteration (ms): {:.1f} | global batch size: 64 | lm loss: 1.0 |\n",
          iteration, ms);
  };
  add(10, 100, 1), add(15, 55, 2), add(10, 30, 3);
  const record::RunData run = LogText(text).read();
  EXPECT_EQ(run.num_attempts, 3);
  EXPECT_EQ(run.steps.step,
            (Steps{9, 19, 29, 44, 54, 69, 79, 89, 99}));  // 59 lies partly in what the second start did again
  EXPECT_EQ(run.steps.attempt, (Lengths{3, 3, 3, 2, 2, 1, 1, 1, 1}));
  EXPECT_EQ(run.steps.step_ms, (std::vector<double>{3, 3, 3, 2, 2, 1, 1, 1, 1}));
}

TEST(LogTraps, ThousandsSeparatorsAndUnits) {
  const record::RunData run =
      LogText("step: 1  loss: 7.0  grad_norm: 1.0  tps: 5,410  tflops: 1,281.3\n", "a.log")
          .read(LogFormat::kTorchTitan,
                {.values = {{"global_batch", "8"}, {"sequence_length", "5410"}, {"devices", "8"}}});
  ASSERT_EQ(run.steps.size(), 1u);
  EXPECT_EQ(run.steps.step_ms[0], 1000);
  EXPECT_EQ(run.steps.logged_tflops_per_device[0], 1281.3);
  EXPECT_EQ(LogText("train_step_timing in s: 1.5, global_step: 3\n").read(LogFormat::kNemo).steps.step_ms,
            std::vector<double>{1500});
  EXPECT_EQ(LogText("train_step_timing: 250 ms, global_step: 3\n").read(LogFormat::kNemo).steps.step_ms,
            std::vector<double>{250});
}

TEST(LogTraps, LinesThatCannotBeReadAreCountedAndTold) {
  const record::RunData run =
      read_changed("megatron.log", "elapsed time per iteration (ms): 814.4", "elapsed time per iteration (ms): -814.4");
  EXPECT_EQ(run.num_rejected_lines, 1);
  has_problem(run, "1 line looks like a measurement and could not be read (the first is line ");
  EXPECT_EQ(run.steps.step[0], 9);
  EXPECT_EQ(run.steps.num_steps[1], 20);  // the next line's mean may not cover what was lost, but its interval does
  for (const char* bad : {"nan", "inf", "0", "-1", "", "1e999", "x"}) {
    const record::RunData damaged =
        LogText(fmt::format("iteration 10/ 5 | elapsed time per iteration (ms): {} | lm loss: 1 |\n", bad))
            .read(LogFormat::kMegatron);
    EXPECT_EQ(damaged.num_rejected_lines, 1) << bad;
    EXPECT_EQ(damaged.steps.size(), 0u) << bad;
    has_problem(damaged, "no step was found");
  }
  has_problem(LogText("a\r\n1%\r2%\r3%\r\niteration 1/ 5 | elapsed time per iteration (ms): x | lm loss: 1 |\r\n")
                  .read(LogFormat::kMegatron),
              "the first is line 3)");
}

TEST(LogTraps, UnknownFilesAndFormatsAreRefusedWithAHint) {
  EXPECT_FALSE(guess_format(LogText("hello\nworld\n").path()));
  try {
    LogText("hello\n").read();
    FAIL();
  } catch (const DataError& error) {
    EXPECT_NE(error.hint().find("openclip"), std::string::npos);
  }
  EXPECT_THROW(read_one("/nonexistent/x.log"), EnvironmentError);
  try {
    parse_log_format("megatrom");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_EQ(error.hint(), "did you mean 'megatron'?");
  }
  for (const LogFormatInfo& info : kLogFormats) EXPECT_EQ(parse_log_format(info.name), info.format);
}

TEST(LogTraps, SlurmFilesTellTheirJob) {
  const std::string text = core::read_file(golden("megatron.log"));
  EXPECT_EQ(LogText(text, "slurm-4711.out").read().allocation, "slurm 4711");
  EXPECT_EQ(LogText(text, "slurm-x.out").read().allocation, "");
}

/// Whatever the bytes: no crash, and no time that is negative or not finite.
TEST(LogFuzz, DamagedLogsNeverCrashAndNeverYieldImpossibleTimes) {
  const core::TempDir folder;
  const uint64_t rounds = tests::fuzz_rounds(60);
  size_t num_read = 0, num_steps = 0;
  for (const Golden& file : kGolden) {
    const std::string text = core::read_file(golden(file.file));
    const fs::path path = folder.path() / file.file;
    for (uint64_t round = 0; round < rounds; ++round) {
      core::CounterRng rng(core::stream_key({round, static_cast<uint64_t>(file.format)}));
      std::ofstream(path, std::ios::binary) << tests::damage(text, rng);
      try {
        const auto format = rng.below(4) == 0 ? std::optional<LogFormat>() : std::optional(file.format);
        const record::RunData run = read_one(
            path, format, {.meta = {.values = {{"global_batch", "64"}, {"sequence_length", "128"}, {"devices", "8"}}}});
        ++num_read;
        num_steps += run.steps.size();
        for (size_t row = 0; row < run.steps.size(); ++row) {
          ASSERT_TRUE(std::isfinite(run.steps.step_ms[row]) && run.steps.step_ms[row] > 0)
              << file.file << " round " << round;
          ASSERT_FALSE(run.steps.data_wait_ms[row] < 0 || std::isinf(run.steps.data_wait_ms[row]))
              << file.file << " round " << round;
          ASSERT_GE(run.steps.step[row], 0) << file.file << " round " << round;
          ASSERT_GE(run.steps.num_steps[row], 1) << file.file << " round " << round;
          if (row > 0) {
            ASSERT_GT(run.steps.step[row], run.steps.step[row - 1]) << file.file << " round " << round;
          }
        }
        for (const record::CollectivePoint& point : run.collective_points)
          ASSERT_TRUE(std::isfinite(point.time_us) && point.time_us > 0 && std::isfinite(point.busbw_gbytes_per_s))
              << file.file << " round " << round;
        for (const record::CollectiveTotal& total : run.collectives)
          ASSERT_TRUE(std::isfinite(total.time_ms) && total.time_ms >= 0) << file.file << " round " << round;
      } catch (const Error& error) {
        ASSERT_NE(error.code(), ExitCode::kInternal) << file.file << " round " << round << ": " << error.what();
      }
    }
  }
  EXPECT_GT(num_read, rounds * std::size(kGolden) / 2);
  EXPECT_GT(num_steps, num_read);
}

TEST(Logs, ABenchmarkOfSeveralCollectivesNamesEachRow) {
  std::string text = core::read_file(golden("all_reduce_perf.txt")), rows;
  for (const auto& line : core::split(text, "\n"))
    if (const std::string row(core::trim(line)); !row.empty() && row[0] >= '1' && row[0] <= '9') rows = row;
  ASSERT_FALSE(rows.empty());
  text += "\n# all-gather\n" + rows + "\n";
  const record::RunData run = LogText(text, "all_reduce_perf.txt").read();
  ASSERT_FALSE(run.collective_points.empty());
  EXPECT_EQ(run.collective_points.front().kind, "all_reduce");
  EXPECT_EQ(run.collective_points.back().kind, "all_gather");
  EXPECT_LT(run.collective_points.back().busbw_gbytes_per_s, run.collective_points.back().algbw_gbytes_per_s);
}

TEST(Logs, ALogThatEndsInAnErrorIsOfAFailedRun) {
  const std::string head = core::read_file(golden("openclip.log"));
  EXPECT_EQ(LogText(head).read().state, "");
  const record::RunData oom =
      LogText(head +
              "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    loss.backward()\n"
              "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n")
          .read();
  EXPECT_EQ(oom.state, "failed");
  EXPECT_EQ(oom.message, "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB");
  const record::RunData value =
      LogText(head + "Traceback (most recent call last):\n  File \"a.py\", line 1\nValueError: bad\n").read();
  EXPECT_EQ(value.state + " " + value.message, "failed ValueError: bad");
  const record::RunData late =
      LogText(head +
              "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT "
              "***\nsrun: error: n1: task 0: Exited\n")
          .read();
  EXPECT_EQ(late.state, "stopped");
  EXPECT_NE(late.message.find("TIME LIMIT"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::logs
