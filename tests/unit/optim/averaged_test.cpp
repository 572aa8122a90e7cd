// The average of weights against torchvision's training loop written out in doubles, and its state in a checkpoint.
#include "optim/averaged.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "optim/sgd.h"
#include "support/drawn_weights.h"
#include "support/tensor_golden.h"

namespace lockstep::optim {
namespace {

using tests::drawn;
using tests::expect_close;

constexpr int64_t kEpochSteps = 5, kWarmupEpochs = 1, kEverySteps = 2;
constexpr int kSteps = 14;
constexpr double kAverageDecay = 0.9;

/// A weight, and a running statistic that changes by itself.
struct Model {
  at::Tensor weight = drawn("average.weight", {6, 5}).set_requires_grad(true);
  at::Tensor statistic = drawn("average.statistic", {5});
  at::Tensor count = at::zeros({}, at::kLong);
  AveragedOptimizer optimizer{std::make_unique<Sgd>(std::vector<Segment>{{.name = "weight", .parameter = weight}},
                                                    SgdConfig{.momentum = 0.9, .weight_decay = 0}),
                              {{"statistic", &statistic}, {"count", &count}},
                              {.decay = kAverageDecay,
                               .steps_per_update = kEverySteps,
                               .steps_per_epoch = kEpochSteps,
                               .num_copied_steps = kWarmupEpochs * kEpochSteps}};

  void step(int number) {
    weight.mutable_grad() = drawn(fmt::format("average.gradient{}", number), {6, 5});
    statistic.mul_(0.9).add_(drawn(fmt::format("average.moved{}", number), {5}), 0.1);
    optimizer.step(0.1);
  }
  at::Tensor average(size_t segment) const { return optimizer.state()[segment].at("ema"); }
};

TEST(AveragedOptimizer, FollowsTorchvisionsLoop) {
  Model model;
  at::Tensor weight, statistic;  // torch's averages, which begin undefined here and as a copy there
  int64_t num_averaged = 0, num_changed = 0;
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor before = model.average(0).clone();
    model.step(step);
    const int64_t epoch = step / kEpochSteps, of_epoch = step % kEpochSteps;
    if (of_epoch % kEverySteps == 0) {
      const at::Tensor now = model.weight.detach().to(at::kDouble), moved = model.statistic.to(at::kDouble);
      weight = num_averaged == 0 ? now : kAverageDecay * weight + (1 - kAverageDecay) * now;
      statistic = num_averaged == 0 ? moved : kAverageDecay * statistic + (1 - kAverageDecay) * moved;
      ++num_averaged;
    }
    if (epoch < kWarmupEpochs) num_averaged = 0;
    num_changed += !model.average(0).equal(before);
    expect_close(model.average(0), weight.to(at::kFloat), 1e-6, fmt::format("weight after step {}", step));
    expect_close(model.average(1), statistic.to(at::kFloat), 1e-6, fmt::format("statistic after step {}", step));
  }
  EXPECT_EQ(num_changed, 8);  // steps 0 2 4, 5 7 9, 10 12
  EXPECT_FALSE(model.average(0).equal(model.weight.detach()));
}

TEST(AveragedOptimizer, GoesOnFromItsStateBitForBit) {
  constexpr int kStop = 6;  // between two updates
  Model whole, begun, resumed;
  for (int step = 0; step < kSteps; ++step) whole.step(step);
  for (int step = 0; step < kStop; ++step) begun.step(step);
  const c10::NoGradGuard no_grad;
  resumed.weight.copy_(begun.weight);
  resumed.statistic.copy_(begun.statistic);
  const auto from = begun.optimizer.state(), to = resumed.optimizer.state();
  ASSERT_EQ(from.size(), 2u);  // the count of batches is no number to average
  for (size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(from[i].name, to[i].name);
    for (size_t k = 0; k < from[i].tensors.size(); ++k) to[i].tensors[k].second.copy_(from[i].tensors[k].second);
    for (size_t k = 0; k < from[i].scalars.size(); ++k) to[i].scalars[k].second.copy_(from[i].scalars[k].second);
  }
  for (int step = kStop; step < kSteps; ++step) resumed.step(step);
  for (const size_t segment : {0, 1}) EXPECT_TRUE(resumed.average(segment).equal(whole.average(segment))) << segment;
  EXPECT_TRUE(resumed.weight.equal(whole.weight));
}

TEST(AveragedOptimizer, SwappingTwiceBringsTheWeightsBack) {
  Model model;
  for (int step = 0; step < kSteps; ++step) model.step(step);
  const at::Tensor weight = model.weight.detach().clone(), average = model.average(0).clone();
  model.optimizer.swap_averages();
  EXPECT_TRUE(model.weight.detach().equal(average));
  EXPECT_TRUE(model.average(0).equal(weight));
  model.optimizer.swap_averages();
  EXPECT_TRUE(model.weight.detach().equal(weight));
  EXPECT_FALSE(weight.equal(average));
}

}  // namespace
}  // namespace lockstep::optim
