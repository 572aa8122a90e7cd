#include "optim/megatron_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::optim {
namespace {

MegatronSchedule schedule(const std::string& style) {
  return {.style = style,
          .max_lr = 1.0,
          .min_lr = 0.1,
          .warmup_init = 0.2,
          .warmup_samples = 100,
          .decay_samples = 1100,
          .tail_style = "linear",
          .tail_samples = 200};
}

TEST(MegatronSchedule, WarmsUpLinearlyFromTheSampleBeforeTheStep) {
  for (const char* style : {"constant", "linear", "cosine", "inverse-square-root", "WSD"}) {
    EXPECT_DOUBLE_EQ(schedule(style).lr(0), 0.2) << style;
    EXPECT_DOUBLE_EQ(schedule(style).lr(50), 0.6) << style;
    EXPECT_DOUBLE_EQ(schedule(style).lr(100), 1.0) << style;
  }
}

/// As --lr-warmup-fraction of a short run gives it: the first step has the lowest rate all the same.
TEST(MegatronSchedule, AWarmUpMayEndWithinASample) {
  MegatronSchedule half = schedule("linear");
  half.warmup_samples = 0.5;
  EXPECT_DOUBLE_EQ(half.lr(0), 0.2);
  EXPECT_DOUBLE_EQ(half.lr(1), 0.1 + 0.9 * (1 - 0.5 / 1099.5));
}

TEST(MegatronSchedule, DecaysAsItsStyleSays) {
  EXPECT_DOUBLE_EQ(schedule("constant").lr(5000), 1.0);
  EXPECT_DOUBLE_EQ(schedule("linear").lr(600), 0.55);
  EXPECT_DOUBLE_EQ(schedule("linear").lr(850), 0.325);
  EXPECT_NEAR(schedule("cosine").lr(600), 0.55, 1e-12);
  EXPECT_NEAR(schedule("cosine").lr(350), 0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5)), 1e-12);
  EXPECT_DOUBLE_EQ(schedule("inverse-square-root").lr(400), 0.5);
  EXPECT_DOUBLE_EQ(schedule("inverse-square-root").lr(1000), std::sqrt(0.1));
  for (const char* style : {"linear", "cosine", "inverse-square-root", "WSD"})
    EXPECT_DOUBLE_EQ(schedule(style).lr(1101), 0.1) << style;
}

TEST(MegatronSchedule, WsdStaysHighUntilItsTail) {
  MegatronSchedule wsd = schedule("WSD");
  EXPECT_DOUBLE_EQ(wsd.lr(900), 1.0);
  EXPECT_DOUBLE_EQ(wsd.lr(1000), 0.55);
  wsd.tail_style = "exponential";
  EXPECT_NEAR(wsd.lr(1000), 0.1 + 0.9 * (2 * std::sqrt(0.5) - 1), 1e-12);
  wsd.tail_style = "minus_sqrt";
  EXPECT_NEAR(wsd.lr(950), 0.1 + 0.9 * 0.5, 1e-12);
  wsd.tail_style = "cosine";
  EXPECT_NEAR(wsd.lr(1000), 0.55, 1e-12);
  for (const char* style : {"exponential", "minus_sqrt", "cosine", "linear"}) {
    wsd.tail_style = style;
    EXPECT_NEAR(wsd.lr(1100), 0.1, 1e-12) << style;
  }
}

}  // namespace
}  // namespace lockstep::optim
