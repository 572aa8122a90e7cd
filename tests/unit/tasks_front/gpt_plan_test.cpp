#include "tasks/gpt/front/gpt_plan.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "support/error_text.h"

namespace lockstep::tasks {
namespace {

using tests::holds;
using tests::message_of;

TEST(GptPlan, ScoresAreKeptAsAttentionChooses) {
  struct Case {
    const char *device, *precision;
    double dropout;
    int64_t sequence;
    bool has_mask, is_kept;
  };
  for (const Case& one : {Case{"auto", "bf16", 0.1, 1024, false, false},
                          {"cuda", "fp32", 0.1, 64, false, false},
                          {"cpu", "fp32", 0.1, 1024, false, true},
                          {"auto", "bf16", 0, 1024, false, false},
                          {"cuda", "fp16", 0, 64, true, false},
                          {"cpu", "bf16", 0, 768, false, true},
                          {"cpu", "bf16", 0, 769, false, false},
                          {"cpu", "fp32", 0, 128, false, true},
                          {"cpu", "fp32", 0, 129, false, false},
                          {"cpu", "fp32", 0, 256, true, true},
                          {"cpu", "bf16", 0, 513, true, false}}) {
    GptOptions options;
    options.model = "gpt2";
    options.device = one.device;
    options.precision = one.precision;
    options.attention_dropout = one.dropout;
    options.seq_length = one.sequence;
    options.reset_attention_mask = one.has_mask;
    EXPECT_EQ(train_gpt_memory(options).keeps_scores, one.is_kept)
        << one.device << ' ' << one.precision << ' ' << one.dropout << ' ' << one.sequence << ' ' << one.has_mask;
  }
  GptOptions plain;
  plain.model = "gpt2";
  plain.attention_backend = "unfused";
  EXPECT_TRUE(train_gpt_memory(plain).keeps_scores) << "gpt2 has dropout unless told otherwise";
  plain.attention_dropout = 0;
  EXPECT_FALSE(train_gpt_memory(plain).keeps_scores) << "nothing to draw";
}

}  // namespace
}  // namespace lockstep::tasks
