#include "optim/sgd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "optim/lars.h"
#include "support/drawn_weights.h"
#include "support/tensor_golden.h"

namespace lockstep::optim {
namespace {

using tests::drawn;
using tests::expect_close;

constexpr double kRounding = 1e-6;  // one rounding per element and step, relative to the largest value

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  bool decays;
};
const std::vector<Tensor> kTensors = {
    {"bias", {7}, false}, {"scale", {}, false}, {"weight", {5, 7}, true}, {"conv", {4, 3, 2, 2}, true}};

std::vector<Segment> start_segments() {
  std::vector<Segment> segments;
  for (const Tensor& tensor : kTensors) {
    at::Tensor value = drawn("start." + tensor.name, tensor.shape);
    if (tensor.shape.size() == 4) value = value.contiguous(at::MemoryFormat::ChannelsLast);
    segments.push_back({tensor.name, value.set_requires_grad(true), tensor.decays, {}});
  }
  return segments;
}

void set_gradients(std::vector<Segment>& segments, int step, double factor) {
  for (size_t i = 0; i < segments.size(); ++i)
    segments[i].parameter.mutable_grad() =
        drawn(fmt::format("grad.{}.{}", step, kTensors[i].name), kTensors[i].shape, 2.0) * factor;
}

/// Four steps of ref/make_imagenet_goldens.py.
void follow_torch(const std::string& name, bool nesterov, double loss_scale) {
  const auto golden = tests::load_golden("imagenet/sgd.safetensors");
  std::vector<Segment> segments = start_segments();
  Sgd optimizer(segments, {.momentum = 0.875, .weight_decay = 0.01, .nesterov = nesterov});
  for (int step = 0; step < 4; ++step) {
    set_gradients(segments, step, loss_scale);
    optimizer.step(0.1 * (step + 1), loss_scale == 1 ? at::Tensor() : at::full({}, loss_scale), at::zeros({}));
    for (const Segment& segment : segments)
      expect_close(segment.parameter, golden.at(fmt::format("{}.{}.{}", name, step, segment.name)), kRounding,
                   fmt::format("{} step {} {}", name, step, segment.name));
  }
}

TEST(Sgd, FollowsTorchWithMomentum) { follow_torch("momentum", false, 1); }
TEST(Sgd, FollowsTorchWithNesterov) { follow_torch("nesterov", true, 1); }
TEST(Sgd, FollowsTorchUnderALossScale) { follow_torch("momentum", false, 512); }

TEST(Sgd, FoundInfLeavesEverythingAsItWas) {
  for (const bool is_lars : {false, true}) {
    std::vector<Segment> segments = start_segments();
    std::unique_ptr<Optimizer> optimizer = std::make_unique<Sgd>(segments, SgdConfig{});
    if (is_lars) optimizer = std::make_unique<Lars>(segments, LarsConfig{});
    set_gradients(segments, 0, 1);
    optimizer->step(0.1);
    const at::Tensor parameter = segments[2].parameter.detach().clone(),
                     buffer = optimizer->state()[2].at("momentum_buffer").clone();
    ASSERT_GT(buffer.abs().max().item<float>(), 0);
    set_gradients(segments, 1, std::numeric_limits<double>::infinity());
    optimizer->step(0.1, at::full({}, 2.0), at::ones({}));
    EXPECT_TRUE(segments[2].parameter.detach().equal(parameter)) << is_lars;
    EXPECT_TRUE(optimizer->state()[2].at("momentum_buffer").equal(buffer)) << is_lars;
  }
}

/// The formula of You, Gitman & Ginsburg 2017 by loops in double precision.
TEST(Lars, ScalesWeightsByTheirNormsAndLeavesTheRestPlain) {
  constexpr double kEta = 0.01, kDecay = 0.05, kMomentum = 0.9, kLr = 0.5;
  std::vector<Segment> segments = start_segments();
  Lars optimizer(segments, {.sgd = {.momentum = kMomentum, .weight_decay = kDecay}, .trust_coefficient = kEta});
  std::vector<at::Tensor> weights, velocities;
  for (const Segment& segment : segments) {
    weights.push_back(segment.parameter.detach().to(at::kDouble).clone());
    velocities.push_back(at::zeros_like(weights.back()));
  }
  for (int step = 0; step < 3; ++step) {
    set_gradients(segments, step, 1);
    for (size_t i = 0; i < segments.size(); ++i) {
      at::Tensor gradient = segments[i].parameter.grad().to(at::kDouble);
      if (kTensors[i].decays) {
        const double of_weight = weights[i].norm().item<double>(), of_gradient = gradient.norm().item<double>();
        gradient = (gradient + kDecay * weights[i]) * (kEta * of_weight / (of_gradient + kDecay * of_weight));
      }
      velocities[i] = kMomentum * velocities[i] + gradient;
      weights[i] = weights[i] - kLr * velocities[i];
    }
    optimizer.step(kLr);
    for (size_t i = 0; i < segments.size(); ++i)
      expect_close(segments[i].parameter, weights[i], kRounding, kTensors[i].name);
  }
}

TEST(Lars, AZeroWeightOrGradientIsNotDividedBy) {
  std::vector<Segment> segments = {{"weight", at::zeros({3, 2}).set_requires_grad(true), true, {}}};
  Lars optimizer(segments, {.sgd = {.momentum = 0, .weight_decay = 0.1}});
  segments[0].parameter.mutable_grad() = at::ones({3, 2});
  optimizer.step(0.5);
  EXPECT_TRUE(segments[0].parameter.detach().equal(at::full({3, 2}, -0.5)));
  segments[0].parameter.mutable_grad() = at::zeros({3, 2});
  optimizer.step(0.5);
  EXPECT_TRUE(segments[0].parameter.isfinite().all().item<bool>());
}

}  // namespace
}  // namespace lockstep::optim
