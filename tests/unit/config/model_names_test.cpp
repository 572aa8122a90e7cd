#include "config/model_names.h"

#include <gtest/gtest.h>

namespace lockstep::config {
namespace {

TEST(ModelNames, InTexts) {
  EXPECT_EQ(find_model_name("NeMo CLIP g/14 weak scaling"), "ViT-g-14");
  EXPECT_EQ(find_model_name("ResNet-50 v1.5, AMP"), "ResNet-50");
  EXPECT_EQ(find_model_name("nothing known"), "");
}

// "GPT 340B" is no gpt3-40b.
TEST(ModelNames, NumbersAreNotCutOutOfOthers) {
  EXPECT_EQ(find_model_name("GPT 340B TP=8"), "");
  EXPECT_EQ(find_model_name("gpt3 40B"), "gpt3-40b");
}

TEST(ModelNames, FlopsFollowFromANameHoweverItIsWritten) {
  const double nominal = find_nominal("lockstep", "llama3-70b").forward_gflops * 1e9;
  for (const char* name : {"llama3-70b", "llama3 70B", "Llama-3-70B", "LLAMA 3 70B"}) {
    const auto count = forward_by_name(name, SampleKind::kSequence, 8192);
    ASSERT_TRUE(count) << name;
    EXPECT_DOUBLE_EQ(count->flops, nominal) << name;
    EXPECT_EQ(count->formula.substr(0, 12), "llama3-70b: ") << name;
  }
  const auto halved = forward_by_name("llama3 70B", SampleKind::kSequence, 4096);
  ASSERT_TRUE(halved);
  EXPECT_LT(halved->flops, nominal / 2) << "attention grows faster than the length";
  const auto pair = forward_by_name("vit_b_32", SampleKind::kPair, 0);
  ASSERT_TRUE(pair);
  EXPECT_DOUBLE_EQ(pair->flops, find_nominal("lockstep", "ViT-B-32").forward_gflops * 1e9);
  EXPECT_TRUE(forward_by_name("HTSAT-tiny-Roberta-base", SampleKind::kPair, 0));
}

TEST(ModelNames, ANameInALongerTextCountsNothing) {
  EXPECT_FALSE(forward_by_name("llama3 70B with experts", SampleKind::kSequence, 8192));
  EXPECT_FALSE(forward_by_name("llama3 70B", SampleKind::kSequence, 0));
  EXPECT_FALSE(forward_by_name("ViT-B-32", SampleKind::kSequence, 77));
  EXPECT_FALSE(forward_by_name("llama3 70B", SampleKind::kPair, 0));
  EXPECT_FALSE(forward_by_name("", SampleKind::kPair, 0));
}

}  // namespace
}  // namespace lockstep::config
