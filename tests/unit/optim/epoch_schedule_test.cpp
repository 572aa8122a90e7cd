#include "optim/epoch_schedule.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace lockstep::optim {
namespace {

constexpr double kScheduleRounding = 1e-12;

TEST(EpochSchedule, StepsFallEveryThirtyEpochsAsInTheExample) {
  const EpochSchedule schedule{.base_lr = 0.1, .steps_per_epoch = 5, .num_epochs = 90};
  EXPECT_DOUBLE_EQ(schedule.lr(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule.lr(149), 0.1);
  EXPECT_NEAR(schedule.lr(150), 0.01, kScheduleRounding);
  EXPECT_NEAR(schedule.lr(449), 0.001, kScheduleRounding);
}

TEST(EpochSchedule, WarmUpRisesInAStraightLineAndMilestonesCountFromTheRunsBegin) {
  const EpochSchedule schedule{.base_lr = 0.8,
                               .steps_per_epoch = 10,
                               .num_epochs = 90,
                               .warmup_epochs = 5,
                               .warmup_start = 0.125,
                               .milestones = {30, 60, 80}};
  EXPECT_NEAR(schedule.lr(0), 0.1, kScheduleRounding);  // Goyal et al. 2017: from 0.1
  EXPECT_NEAR(schedule.lr(25), 0.45, kScheduleRounding);
  EXPECT_DOUBLE_EQ(schedule.lr(50), 0.8);
  EXPECT_DOUBLE_EQ(schedule.lr(299), 0.8);
  EXPECT_NEAR(schedule.lr(300), 0.08, kScheduleRounding);
  EXPECT_NEAR(schedule.lr(600), 0.008, kScheduleRounding);
  EXPECT_NEAR(schedule.lr(800), 0.0008, kScheduleRounding);
}

TEST(EpochSchedule, StepsBehindAWarmUpCountFromItsEndAsInTorchvision) {
  const EpochSchedule schedule{
      .base_lr = 0.1, .steps_per_epoch = 10, .num_epochs = 90, .warmup_epochs = 5, .step_epochs = 30};
  EXPECT_DOUBLE_EQ(schedule.lr(50), 0.1);
  EXPECT_DOUBLE_EQ(schedule.lr(349), 0.1);
  EXPECT_NEAR(schedule.lr(350), 0.01, kScheduleRounding);
  EXPECT_NEAR(schedule.lr(649), 0.01, kScheduleRounding);
  EXPECT_NEAR(schedule.lr(650), 0.001, kScheduleRounding);
}

TEST(EpochSchedule, CosineAndPolynomialEndAtTheirLowestRate) {
  EpochSchedule schedule{.kind = EpochScheduleKind::kCosine,
                         .base_lr = 1,
                         .steps_per_epoch = 10,
                         .num_epochs = 12,
                         .warmup_epochs = 2,
                         .end_lr = 0.2};
  EXPECT_DOUBLE_EQ(schedule.lr(20), 1);
  EXPECT_NEAR(schedule.lr(70), 0.6, kScheduleRounding);
  EXPECT_NEAR(schedule.lr(120), 0.2, kScheduleRounding);
  EXPECT_NEAR(schedule.lr(500), 0.2, kScheduleRounding);
  schedule.kind = EpochScheduleKind::kPolynomial;
  schedule.power = 2;
  EXPECT_NEAR(schedule.lr(70), 0.2 + 0.8 * 0.25, kScheduleRounding);
  EXPECT_NEAR(schedule.lr(120), 0.2, kScheduleRounding);
  schedule.kind = EpochScheduleKind::kConst;
  EXPECT_DOUBLE_EQ(schedule.lr(119), 1);
}

TEST(EpochSchedule, RefusesOtherNames) {
  EXPECT_EQ(parse_epoch_schedule("poly"), EpochScheduleKind::kPolynomial);
  EXPECT_THROW(parse_epoch_schedule("linear"), UsageError);
}

}  // namespace
}  // namespace lockstep::optim
