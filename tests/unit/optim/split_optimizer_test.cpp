#include "optim/split_optimizer.h"

#include <gtest/gtest.h>

#include "support/drawn_weights.h"

namespace lockstep::optim {
namespace {

const OptimizerConfig kOthers{.beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-6, .weight_decay = 0.5};
const OptimizerConfig kPretrained{.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.25};
constexpr double kSplitStepLr = 0.125, kPretrainedScale = 0.25;  // exact in fp32, as their product is

Segment drawn_segment(const std::string& name, bool is_pretrained) {
  at::Tensor value = tests::drawn(name, {3, 4}).set_requires_grad(true);
  value.mutable_grad() = tests::drawn("gradient of " + name, {3, 4});
  return {.name = name, .parameter = value, .decays = true, .is_pretrained = is_pretrained};
}

/// The parameter and the first moment behind three steps of an optimiser of its own.
std::vector<at::Tensor> alone(const std::string& name, const OptimizerConfig& config, double lr) {
  const Segment segment = drawn_segment(name, false);
  const auto optimizer = make_optimizer(config, {segment});
  for (int step = 0; step < 3; ++step) optimizer->step(lr);
  return {segment.parameter, optimizer->state().at(0).at("exp_avg")};
}

TEST(SplitOptimizer, EachHalfIsUpdatedByItsOwnNumbers) {
  for (const char* name : {"adamw", "lion"}) {
    OptimizerConfig others = kOthers, pretrained = kPretrained;
    others.name = pretrained.name = name;
    const std::vector<Segment> segments = {drawn_segment("a", true), drawn_segment("b", false),
                                           drawn_segment("c", true)};
    SplitOptimizer split(segments, others, {.config = pretrained, .lr_scale = kPretrainedScale});
    for (int step = 0; step < 3; ++step) split.step(kSplitStepLr);
    const auto state = split.state();
    ASSERT_EQ(state.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      const bool is_pretrained = segments[i].is_pretrained;
      const auto want = alone(segments[i].name, is_pretrained ? pretrained : others,
                              is_pretrained ? kSplitStepLr * kPretrainedScale : kSplitStepLr);
      EXPECT_EQ(state[i].name, segments[i].name) << "in segment order";
      EXPECT_TRUE(segments[i].parameter.equal(want[0])) << name << " " << segments[i].name;
      EXPECT_TRUE(state[i].at("exp_avg").equal(want[1])) << name << " " << segments[i].name;
      EXPECT_FALSE(want[0].equal(alone(segments[i].name, is_pretrained ? others : pretrained, kSplitStepLr)[0]))
          << "the numbers matter";
    }
    EXPECT_EQ(split.state_names(), make_optimizer(others, {})->state_names());
  }
}

TEST(SplitOptimizer, GradientsAreDividedOnceAndOverflowsSkipAll) {
  const std::vector<Segment> segments = {drawn_segment("a", true), drawn_segment("b", false)};
  const std::vector<at::Tensor> before = {segments[0].parameter.detach().clone(),
                                          segments[1].parameter.detach().clone()};
  SplitOptimizer split(segments, kOthers, {.config = kPretrained});
  split.step(kSplitStepLr, at::full({}, 2.0f), at::ones({}));
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(segments[i].parameter.equal(before[i])) << "found_inf";
  split.step(kSplitStepLr, at::full({}, 2.0f), at::zeros({}));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_FALSE(segments[i].parameter.equal(before[i]));
    EXPECT_EQ(split.gradients().size(), 2u);
  }
}

}  // namespace
}  // namespace lockstep::optim
