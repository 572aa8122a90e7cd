#include "tasks/gpt/front/gpt_plan.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "support/error_text.h"
#include "tasks/gpt/front/gpt_data_config.h"

namespace lockstep::tasks {
namespace {

using tests::holds;
using tests::message_of;

TEST(GptPlan, ScoresAreKeptAsAttentionChooses) {
  struct Case {
    const char *device, *precision;
    double dropout;
    int64_t sequence;
    bool has_mask;
    int64_t kept;
  };
  for (const Case& one : {Case{"auto", "bf16", 0.1, 1024, false, 0},
                          {"cuda", "fp32", 0.1, 64, false, 0},
                          {"cpu", "fp32", 0.1, 1024, false, 128 * 128 * 36},
                          {"cpu", "fp32", 0.1, 1024, true, 1024 * 1024},
                          {"auto", "bf16", 0, 1024, false, 0},
                          {"cuda", "fp16", 0, 64, true, 0},
                          {"cpu", "bf16", 0, 1024, false, 256 * 256 * 10},
                          {"cpu", "fp16", 0, 1024, false, 1024 * 1024},
                          {"cpu", "bf16", 0, 1025, false, 0},
                          {"cpu", "fp32", 0, 130, false, 65 * 65 + 65 * 130},
                          {"cpu", "fp32", 0, 129, false, 65 * 65 + 64 * 129},
                          {"cpu", "fp32", 0, 128, false, 128 * 128},
                          {"cpu", "fp32", 0, 768, false, 128 * 128 * 21},
                          {"cpu", "fp32", 0, 769, false, 0},
                          {"cpu", "fp32", 0, 256, true, 256 * 256},
                          {"cpu", "bf16", 0, 513, true, 0}}) {
    GptOptions options;
    options.model = "gpt2";
    options.device = one.device;
    options.precision = one.precision;
    options.attention_dropout = one.dropout;
    options.seq_length = one.sequence;
    options.max_position_embeddings = 2048;
    options.reset_attention_mask = one.has_mask;
    EXPECT_EQ(train_gpt_memory(options).kept_scores, one.kept)
        << one.device << ' ' << one.precision << ' ' << one.dropout << ' ' << one.sequence << ' ' << one.has_mask;
  }
  GptOptions plain;
  plain.model = "gpt2";
  plain.attention_backend = "unfused";
  EXPECT_EQ(train_gpt_memory(plain).kept_scores, 1024 * 1024) << "gpt2 has dropout unless told otherwise";
  plain.attention_dropout = 0;
  EXPECT_EQ(train_gpt_memory(plain).kept_scores, 0) << "nothing to draw";
}

/// As Megatron-LM orders them: the number decides how many passes over the data are shuffled.
TEST(GptPlan, AllOfTrainSamplesArePutInOrderThoughStepsLeaveARest) {
  GptOptions options;
  options.model = "gpt2";
  options.global_batch_size = 100;
  const auto num_ordered = [&] { return gpt_data_config(options, train_gpt_layout(options, 1)).num_samples[0]; };
  options.train_samples = 1007;
  EXPECT_EQ(num_ordered(), 1007);
  options.train_samples = 7;
  EXPECT_EQ(num_ordered(), 100) << "the one step that a run has at least";
  options.train_samples.reset();
  options.train_iters = 12;
  EXPECT_EQ(num_ordered(), 1200);
}

}  // namespace
}  // namespace lockstep::tasks
