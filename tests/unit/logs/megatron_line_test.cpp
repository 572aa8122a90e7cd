#include "record/megatron_line.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "core/files.h"
#include "logs/logs.h"
#include "unit/logs/read_one.h"

namespace lockstep::logs {
namespace {

record::MegatronLine line(int64_t iteration) {
  return {.time_s = 1.8e9 + static_cast<double>(iteration),
          .iteration = iteration,
          .num_iterations = 500,
          .consumed_samples = iteration * 64,
          .iteration_ms = 812.44,
          .tflops_per_device = 181.23,
          .tokens_per_s_per_device = 4096.4,
          .lr = 1e-5,
          .global_batch = 64,
          .loss = 9.125,
          .loss_scale = 1.0,
          .grad_norm = 1.2345,
          .num_zeros = 4096,
          .params_norm = 98.7654,
          .num_skipped = 0};
}

TEST(MegatronLine, IsReadAgainByTheReaderOfMegatronLogs) {
  const core::TempDir folder;
  std::ofstream(folder.path() / "run.log") << record::format_megatron_line(line(10)) << "\n"
                                           << record::format_megatron_validation(10, 9.0) << "\n"
                                           << record::format_megatron_line(line(20)) << "\n";
  const record::RunData run = read_one(folder.path() / "run.log");
  ASSERT_EQ(run.steps.size(), 2u);
  EXPECT_EQ(run.steps.step[1], 19);
  EXPECT_NEAR(run.steps.step_ms[0], 812.4, 1e-9);
  EXPECT_DOUBLE_EQ(run.steps.logged_tflops_per_device[0], 181.2);
  EXPECT_DOUBLE_EQ(run.steps.loss[0], 9.125);
  EXPECT_EQ(run.steps.samples[0], 64);
}

/// Megatron-DeepSpeed says it in each line; a curriculum changes it.
TEST(MegatronLine, TheLengthOfItsOwnSequencesCounts) {
  const core::TempDir folder;
  std::ofstream log(folder.path() / "run.log");
  for (const auto& [iteration, length] : {std::pair{10, 1024}, {20, 2048}})
    log << " iteration " << iteration << "/ 400 | consumed samples: " << 64 * iteration
        << " | elapsed time per iteration (ms): 1541.6 | global batch size: 64 | lm loss: 1.0E+01 | actual seqlen: "
        << length << " | number of skipped iterations: 0 |\n";
  log.close();
  const record::RunData run = read_one(folder.path() / "run.log");
  ASSERT_EQ(run.steps.size(), 2u);
  EXPECT_EQ(run.setup.sequence_length, 1024);
  EXPECT_EQ(run.steps.tokens[0], 64 * 1024);
  EXPECT_EQ(run.steps.tokens[1], 64 * 2048);
}

TEST(MegatronLine, NormsAndZerosStandWhereAskedFor) {
  EXPECT_NE(record::format_megatron_line(line(1)).find(
                "| grad norm: 1.234 | num zeros: 4096.0 | params norm: 98.765 | number of skipped"),
            std::string::npos)
      << record::format_megatron_line(line(1));
  record::MegatronLine plain = line(1);
  plain.num_zeros = plain.params_norm = std::nullopt;
  EXPECT_NE(record::format_megatron_line(plain).find("| grad norm: 1.234 | number of skipped"), std::string::npos)
      << record::format_megatron_line(plain);
}

TEST(MegatronLine, LeavesOutALossThatIsNone) {
  record::MegatronLine bad = line(1);
  bad.loss = std::numeric_limits<double>::quiet_NaN();
  bad.num_nan = 1;
  const std::string text = record::format_megatron_line(bad);
  EXPECT_EQ(text.find("lm loss"), std::string::npos) << text;
  EXPECT_NE(text.find("number of nan iterations:   1 |"), std::string::npos) << text;
  EXPECT_NE(text.find("| consumed samples:           64 |"), std::string::npos) << text;
}

TEST(MegatronLine, PerplexityStopsAtTheTwentiethPower) {
  EXPECT_DOUBLE_EQ(record::perplexity(2), std::exp(2));
  EXPECT_DOUBLE_EQ(record::perplexity(400), std::exp(20));
}

}  // namespace
}  // namespace lockstep::logs
