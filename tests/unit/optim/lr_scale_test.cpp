// A segment's own learning rate, of every optimiser.
#include <gtest/gtest.h>

#include "config/optimizers.h"
#include "optim/make_optimizer.h"
#include "support/drawn_weights.h"

namespace lockstep::optim {
namespace {

constexpr double kStepLr = 0.125, kSegmentScale = 0.25;  // exact in fp32, as their product is

/// Two weights after a step at `lr`, the second with a scale.
std::vector<at::Tensor> updated(std::string_view name, double lr, double scale) {
  std::vector<Segment> segments;
  for (const char* segment : {"first", "second"}) {
    at::Tensor value = tests::drawn(segment, {5, 7}).set_requires_grad(true);
    value.mutable_grad() = tests::drawn("gradient", {5, 7});
    segments.push_back({.name = segment, .parameter = value, .decays = true});
  }
  segments[1].lr_scale = scale;
  std::vector<at::Tensor> values = {segments[0].parameter, segments[1].parameter};
  make_optimizer({.name = std::string(name), .weight_decay = 0.5}, std::move(segments))->step(lr);
  return values;
}

TEST(LearningRateScale, ASegmentIsUpdatedAsIfTheStepHadItsLearningRate) {
  for (const config::OptimizerInfo& info : config::kOptimizers) {
    const auto scaled = updated(info.name, kStepLr, kSegmentScale), plain = updated(info.name, kStepLr, 1),
               slow = updated(info.name, kStepLr * kSegmentScale, 1);
    EXPECT_TRUE(scaled[0].equal(plain[0])) << info.name;
    EXPECT_TRUE(scaled[1].equal(slow[1])) << info.name;
    EXPECT_FALSE(scaled[1].equal(plain[1])) << info.name;
  }
}

}  // namespace
}  // namespace lockstep::optim
