// Lines into whose numbers another program wrote.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "core/files.h"
#include "core/strings.h"
#include "logs/logs.h"
#include "unit/logs/read_one.h"

namespace lockstep::logs {
namespace {

namespace fs = std::filesystem;

record::RunData read_torn(const std::string& text, const std::string& name = "run.log") {
  const core::TempDir folder;
  std::ofstream(folder.path() / name, std::ios::binary) << text;
  return read_one(folder.path() / name);
}

bool tells_torn_lines(const record::RunData& run) {
  return std::any_of(run.problems.begin(), run.problems.end(), [](const std::string& problem) {
    return problem.find("wrote into each other's text") != std::string::npos;
  });
}

/// A format whose golden log is torn behind the first digits of the number that follows `key`.
struct Torn {
  const char* file;
  const char* key;
  bool is_end_open = false;  ///< The number may be the last of its line, so a line end tells nothing.
};
constexpr Torn kTorn[] = {{"openclip.log", "Batch (t): "},    {"nemo_bar.out", "in s="},
                          {"nemo_lines.out", "in s: ", true}, {"megatron.log", "per iteration (ms): "},
                          {"torchtitan.log", "tps: "},        {"deepspeed.log", "CurrSamplesPerSec="},
                          {"imagenet.log", "Time  "},         {"tf_cnn.log", "images/sec: "}};

/// Every third line of a step gets `other` behind the first digit of its number.
std::string tear(const Torn& torn, const std::string& other, int& num_torn) {
  const std::string text =
      core::replace_all(core::read_file(fs::path(LOCKSTEP_GOLDEN_DIR) / "logs" / torn.file), "\r", "\n");
  std::string out;
  int num_steps = 0;
  num_torn = 0;
  for (std::string line : core::split(text, "\n")) {
    const size_t at = line.find(torn.key);
    if (at != std::string::npos && line.find("total") == std::string::npos && ++num_steps % 3 == 0) {
      line.insert(at + std::string_view(torn.key).size() + 1, other);
      ++num_torn;
    }
    out += line + "\n";
  }
  return out;
}

TEST(TornLogs, ANumberThatAnotherWriterCutIsNoMeasurementInAnyFormat) {
  for (const Torn& torn : kTorn)
    for (const std::string other :
         {"2026-01-01,10:00:00 | INFO | Start epoch 0\n", "[rank3]:[W1101 12:00:00 socket.cpp:1] warning\n",
          "2026-01-01,10:00:00 | INFO | Start epoch 0", "[rank3]:[W1101 12:00:00 socket.cpp:1] warning",
          " srun: note\n", "\n"}) {
      if (torn.is_end_open && other == "\n") continue;
      int num_torn = 0;
      const std::string where = fmt::format("{} with '{}'", torn.file, core::replace_all(other, "\n", "<line end>"));
      const record::RunData run = read_torn(tear(torn, other, num_torn), torn.file),
                            whole = read_one(fs::path(LOCKSTEP_GOLDEN_DIR) / "logs" / torn.file);
      ASSERT_GT(num_torn, 1) << where;
      EXPECT_GE(run.num_rejected_lines, num_torn) << where;
      EXPECT_TRUE(tells_torn_lines(run)) << where << ": " << core::join(run.problems, " | ");
      ASSERT_GT(run.steps.size(), 3u) << where;
      const auto [least, most] = std::minmax_element(whole.steps.step_ms.begin(), whole.steps.step_ms.end());
      for (const double ms : run.steps.step_ms)
        EXPECT_TRUE(ms >= *least * 0.98 && ms <= *most * 1.02) << where << ": " << ms;
    }
}

TEST(TornLogs, AMegatronLineThatEndsBeforeItsTimeIsCounted) {
  const std::string whole =
      " [2026-05-01 10:11:12] iteration       10/     500 | consumed samples:          640 | elapsed time per "
      "iteration "
      "(ms): 812.4 | learning rate: 1.0E-05 | global batch size:    64 | number of skipped iterations:   0 | number of "
      "nan iterations:   0 |\n";
  const std::string others =
      " validation loss at iteration 10 | lm loss value: 9.0E+00 | lm loss PPL: 8.1E+03 | \n"
      "saving checkpoint at iteration      10 to /ckpt in torch_dist format\n"
      "Evaluating iter 1/10\n";
  EXPECT_EQ(read_torn(whole + others).num_rejected_lines, 0);
  for (const size_t cut : {whole.find("elapsed") + 3, whole.find("consumed"), whole.find("     500")})
    for (const char* end : {"\n", ""}) {
      const std::string where = fmt::format("'{}' with '{}'", whole.substr(0, cut), *end == 0 ? "" : "<line end>");
      const record::RunData run = read_torn(whole + others + whole.substr(0, cut) + end);
      EXPECT_EQ(run.steps.size(), 1u) << where;
      EXPECT_EQ(run.num_rejected_lines, 1) << where;
    }
}

TEST(TornLogs, OtherVersionsOfTheProgramsAreWhole) {
  const std::string stamp = "2022-05-01,12:00:00 | INFO | ";
  const record::RunData first =
      read_torn(stamp +
                "Train Epoch: 0 [  4096/1000000 (0%)] Loss: 8.3 (8.4) Data (t): 0.031 Batch (t): "
                "1.204 LR: 0.000012 Logit Scale: 14.286\n");
  EXPECT_EQ(first.steps.step_ms, std::vector<double>{1204});
  const record::RunData rate =
      read_torn(stamp +
                "Train Epoch: 0 [  4096/1000000 (0%)] Data (t): 0.031 Batch (t): 1.204, 3401.9/s LR: "
                "0.000012 Logit Scale: 14.286 Contrastive_loss: 8.3 (8.4) Loss: 8.3 (8.4)\n");
  EXPECT_EQ(rate.steps.step_ms, std::vector<double>{1204});
  const record::RunData megatron = read_torn(
      " iteration       10/     500 | consumed samples:          640 | elapsed time per iteration (s): 0.81 | learning "
      "rate: 1.0E-05 | global batch size:    64 | "
      "lm loss: 9.000000E+00 | grad norm: 1.234 | samples per second: 79.0 | TFLOPs: 40.1 |\n");
  EXPECT_EQ(megatron.steps.step_ms, std::vector<double>{810});
  const record::RunData bar = read_torn(
      "Epoch 0:  50%|##### | 50/100 [03:59<03:59, 0.28it/s, v_num=0, train_step_timing in s=3.590, "
      "reduced_train_loss=7.310, global_step=49.00]\n");
  EXPECT_EQ(bar.steps.step_ms, std::vector<double>{3590});
  for (const record::RunData* run : {&first, &rate, &megatron, &bar}) EXPECT_EQ(run->num_rejected_lines, 0);
}

}  // namespace
}  // namespace lockstep::logs
