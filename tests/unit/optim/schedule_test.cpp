#include "optim/schedule.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/json.h"
#include "optim/loss_scaler.h"
#include "support/tensor_golden.h"

namespace lockstep::optim {
namespace {

core::Json golden(const std::string& name) {
  return core::read_json_file(std::string(LOCKSTEP_GOLDEN_DIR) + "/optim/" + name);
}

TEST(Schedule, FollowsOpenClip) {
  for (const auto& entry : golden("schedule.json"))
    for (const std::string name : {"cosine", "const", "const-cooldown"}) {
      const Schedule schedule{.kind = parse_schedule(name),
                              .base_lr = entry.at("lr"),
                              .warmup_steps = entry.at("warmup"),
                              .total_steps = entry.at("total"),
                              .cooldown_steps = entry.at("cooldown"),
                              .cooldown_power = entry.at("power"),
                              .cooldown_end_lr = entry.at("end")};
      const auto& want = entry.at(name);
      ASSERT_GT(want.size(), 5u);
      for (size_t step = 0; step < want.size(); ++step)
        EXPECT_NEAR(schedule.lr(static_cast<int64_t>(step)), want[step].get<double>(), 1e-17)
            << name << " step " << step;
    }
}

TEST(Schedule, StaysAtItsEnd) {
  const Schedule cosine{.base_lr = 1.0, .total_steps = 10};
  EXPECT_NEAR(cosine.lr(15), 0.0, 1e-15);
  const Schedule cooldown{.kind = ScheduleKind::kConstCooldown,
                          .base_lr = 1.0,
                          .total_steps = 10,
                          .cooldown_steps = 2,
                          .cooldown_power = 0.5,
                          .cooldown_end_lr = 0.25};
  EXPECT_EQ(cooldown.lr(15), 0.25);
}

TEST(Schedule, SkippedIsTheBaseRateFromStepZero) {
  const Schedule schedule{.base_lr = 3.0, .warmup_steps = 5, .total_steps = 10, .is_skipped = true};
  EXPECT_EQ(schedule.lr(0), 3.0);
  EXPECT_EQ(schedule.lr(9), 3.0);
}

TEST(Schedule, UnknownNameSuggestsTheNearest) {
  try {
    parse_schedule("cosin");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_EQ(error.hint(), "did you mean --lr-scheduler cosine?");
  }
}

TEST(LossScaler, FollowsTorch) {
  const auto want = golden("scaler.json");
  LossScaler scaler(at::kCPU, {.growth_interval = want.at("interval")});
  for (size_t i = 0; i < want.at("overflows").size(); ++i) {
    scaler.update(at::full({}, want.at("overflows")[i].get<double>()));
    EXPECT_EQ(scaler.state().scale, want.at("trace")[i][0].get<double>()) << i;
    EXPECT_EQ(scaler.state().growth_tracker, want.at("trace")[i][1].get<int64_t>()) << i;
  }
}

TEST(LossScaler, FollowsMegatronWithHysteresis) {
  LossScaler scaler(at::kCPU, {.initial_scale = 16, .growth_interval = 2, .hysteresis = 2, .min_scale = 4});
  // Overflows do not refill the hysteresis and clean steps alone do not either; growth does.
  const std::vector<std::pair<double, double>> overflow_and_scale = {{1, 16}, {0, 16}, {1, 8}, {1, 4}, {1, 4},
                                                                     {0, 4},  {0, 8},  {1, 8}, {1, 4}};
  for (size_t i = 0; i < overflow_and_scale.size(); ++i) {
    scaler.update(at::full({}, overflow_and_scale[i].first));
    EXPECT_EQ(scaler.state().scale, overflow_and_scale[i].second) << i;
  }
  LossScaler constant(at::kCPU, {.initial_scale = 16, .growth_interval = 1, .is_constant = true});
  constant.update(at::ones({}));
  constant.update(at::zeros({}));
  EXPECT_EQ(constant.state().scale, 16);
}

TEST(LossScaler, StateRoundTripAndDamage) {
  LossScaler one(at::kCPU), two(at::kCPU);
  one.update(at::ones({}));
  one.update(at::zeros({}));
  two.load_state(one.state());
  EXPECT_EQ(two.state().scale, 32768.0);
  EXPECT_EQ(two.state().growth_tracker, 1);
  EXPECT_EQ(two.scaled(at::full({}, 2.0)).item<float>(), 65536.0f);
  EXPECT_THROW(two.load_state({.scale = 0.0}), CheckpointError);
  EXPECT_THROW(two.load_state({.scale = 1.0, .growth_tracker = -1}), CheckpointError);
}

}  // namespace
}  // namespace lockstep::optim
