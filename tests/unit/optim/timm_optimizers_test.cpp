#include <gtest/gtest.h>

#include <limits>

#include "optim/make_optimizer.h"
#include "support/drawn_weights.h"
#include "support/tensor_golden.h"

namespace lockstep::optim {
namespace {

using tests::drawn;
using tests::expect_close;

constexpr double kTimmRounding = 2e-6;  // a few roundings an element and step, relative to the largest value

struct Weight {
  std::string name;
  std::vector<int64_t> shape;
  bool decays;
};
const std::vector<Weight> kWeights = {
    {"bias", {7}, false}, {"scale", {}, false}, {"weight", {5, 7}, true}, {"conv", {4, 3, 2, 2}, true}};

std::vector<Segment> begin_segments() {
  std::vector<Segment> segments;
  for (const Weight& weight : kWeights) {
    at::Tensor value = drawn("start." + weight.name, weight.shape);
    if (weight.shape.size() == 4) value = value.contiguous(at::MemoryFormat::ChannelsLast);
    segments.push_back({weight.name, value.set_requires_grad(true), weight.decays, {}});
  }
  return segments;
}

void draw_gradients(std::vector<Segment>& segments, int step, double factor) {
  for (size_t i = 0; i < segments.size(); ++i)
    segments[i].parameter.mutable_grad() =
        drawn(fmt::format("grad.{}.{}", step, kWeights[i].name), kWeights[i].shape, step == 3 ? 0.1 : 2.0) * factor;
}

class TimmOptimizers : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Optimizer> make(const std::vector<Segment>& segments) const {
    const bool is_lion = std::string(GetParam()) == "lion";
    return make_optimizer(
        {.name = GetParam(), .beta1 = 0.9, .beta2 = is_lion ? 0.99 : 0.999, .epsilon = 1e-6, .weight_decay = 0.05},
        segments);
  }
};

TEST_P(TimmOptimizers, FiveStepsEqualTimm) {
  const auto golden = tests::load_golden("optim/timm.safetensors");
  for (const double loss_scale : {1.0, 512.0}) {
    std::vector<Segment> segments = begin_segments();
    const auto optimizer = make(segments);
    for (int step = 0; step < 5; ++step) {
      draw_gradients(segments, step, loss_scale);
      optimizer->step(1e-2 * (step + 1), loss_scale == 1 ? at::Tensor() : at::full({}, loss_scale), at::zeros({}));
      for (const Segment& segment : segments)
        expect_close(segment.parameter, golden.at(fmt::format("{}.{}.{}", GetParam(), step, segment.name)),
                     kTimmRounding, fmt::format("step {} {}", step, segment.name));
    }
  }
}

TEST_P(TimmOptimizers, FoundInfLeavesEverythingAsItWas) {
  for (const int num_good : {0, 1}) {  // the very first step may be the one that is skipped
    std::vector<Segment> segments = begin_segments(), others = begin_segments();
    const auto optimizer = make(segments), undisturbed = make(others);
    for (int step = 0; step < num_good; ++step) {
      draw_gradients(segments, step, 1), draw_gradients(others, step, 1);
      optimizer->step(0.1), undisturbed->step(0.1);
    }
    draw_gradients(segments, 1, std::numeric_limits<double>::infinity());
    optimizer->step(0.1, at::full({}, 2.0), at::ones({}));
    draw_gradients(segments, 2, 1), draw_gradients(others, 2, 1);
    optimizer->step(0.1, {}, at::zeros({})), undisturbed->step(0.1);
    for (size_t i = 0; i < segments.size(); ++i) {
      EXPECT_TRUE(segments[i].parameter.equal(others[i].parameter)) << segments[i].name << " behind " << num_good;
      const SegmentState got = optimizer->state()[i], want = undisturbed->state()[i];
      for (const auto& [name, tensor] : got.tensors) EXPECT_TRUE(tensor.equal(want.at(name))) << name;
    }
  }
}

TEST_P(TimmOptimizers, AZeroParameterMoves) {
  std::vector<Segment> segments = {{"weight", at::zeros({3, 2}).set_requires_grad(true), true, {}}};
  const auto optimizer = make(segments);
  segments[0].parameter.mutable_grad() = at::ones({3, 2});
  optimizer->step(0.5);
  EXPECT_NEAR(segments[0].parameter.max().item<double>(), -0.5, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Optim, TimmOptimizers, ::testing::Values("lion", "lamb"),
                         [](const auto& entry) { return std::string(entry.param); });

}  // namespace
}  // namespace lockstep::optim
