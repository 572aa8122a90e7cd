#include "nn/recompute.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <optional>

#include "nn/init.h"
#include "nn/transformer.h"
#include "support/tensor_golden.h"

namespace lockstep::nn {
namespace {

using ::lockstep::tests::expect_close;

const BlockShape kBlock{.width = 16, .heads = 2, .mlp_width = 40};

void fill(Module& module) {
  for (auto& entry : module.named_parameters()) {
    const config::ParamSpec spec{
        .name = entry.name, .shape = entry.tensor->sizes().vec(), .init = {config::InitLaw::Kind::kNormal, 0.0, 0.3}};
    initialize(*entry.tensor, spec, 1);
  }
}

at::Tensor input() {
  at::Tensor x = at::empty({3, 7, 16});
  initialize(x, {.name = "x", .shape = {3, 7, 16}, .init = {config::InitLaw::Kind::kNormal, 0.0, 1.0}}, 2);
  return x;
}

/// bf16 autocast on the CPU as long as it lives.
struct Autocast {
  Autocast() {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_cache_enabled(true);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
};

/// Output, input gradient and parameter gradients of a causal stack whose every block runs `repeats` times.
std::vector<at::Tensor> run(bool checkpointing, bool autocast, int repeats) {
  Transformer stack(2, kBlock, /*is_causal=*/true, {});
  fill(stack);
  stack.set_checkpointing(checkpointing);
  const at::Tensor x = input().set_requires_grad(true);
  at::Tensor y = x;
  {
    std::optional<Autocast> scope;
    if (autocast) scope.emplace();
    for (int i = 0; i < repeats; ++i) y = stack.forward(y);
    y = y.to(at::kFloat);
  }
  y.square().sum().backward();
  std::vector<at::Tensor> result{y.detach(), x.grad()};
  for (auto& entry : stack.named_parameters()) result.push_back(entry.tensor->grad());
  return result;
}

class RecomputeModes : public ::testing::TestWithParam<std::tuple<bool, int>> {};

// Under autocast a weight used twice has one cached cast in the plain call, so its two gradients add up in bf16;
// recomputed, in fp32.
TEST_P(RecomputeModes, BitsOfThePlainCall) {
  const auto [autocast, repeats] = GetParam();
  const auto plain = run(false, autocast, repeats), recomputed = run(true, autocast, repeats);
  ASSERT_EQ(plain.size(), recomputed.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    ASSERT_TRUE(recomputed[i].defined()) << i;
    EXPECT_GT(plain[i].abs().max().item<double>(), 0.0) << i;
    if (autocast && repeats > 1) {
      expect_close(recomputed[i], plain[i], 0.02, "tensor " + std::to_string(i));
    } else {
      EXPECT_TRUE(recomputed[i].equal(plain[i])) << i;
    }
  }
  // bf16 must have been in force in both: the result differs from fp32.
  if (autocast) {
    EXPECT_FALSE(plain[0].equal(run(false, false, repeats)[0]));
  }
}

INSTANTIATE_TEST_SUITE_P(AutocastAndSharing, RecomputeModes,
                         ::testing::Combine(::testing::Bool(), ::testing::Values(1, 2)));

struct CountingHook : torch::autograd::PostAccumulateGradHook {
  explicit CountingHook(int& fired) : count(fired) {}
  void operator()(const at::Tensor&) override { ++count; }
  int& count;
};

TEST(Recompute, RunsAgainInBackwardAndHooksFireOnce) {
  Linear linear(4, 4, {});
  fill(linear);
  int num_runs = 0, num_hooks = 0;
  for (auto& entry : linear.named_parameters())
    torch::autograd::impl::set_post_acc_grad_hooks(*entry.tensor, std::make_unique<CountingHook>(num_hooks));
  const auto compute = [&](const at::Tensor& t) { return ++num_runs, linear.forward(t).tanh(); };
  const at::Tensor x = at::ones({2, 4}).set_requires_grad(true);
  const at::Tensor y = recomputed(linear, recomputed(linear, x, compute), compute);  // one parameter in two blocks
  EXPECT_EQ(num_runs, 2);
  EXPECT_TRUE(y.requires_grad());
  y.sum().backward();
  EXPECT_EQ(num_runs, 4);
  EXPECT_EQ(num_hooks, 2);  // weight and bias
  EXPECT_TRUE(linear.weight().grad().defined());
}

TEST(Recompute, WithoutGradientsItIsThePlainCall) {
  Linear linear(4, 4, {});
  fill(linear);
  const at::NoGradGuard no_gradients;
  EXPECT_FALSE(
      recomputed(linear, at::ones({2, 4}), [&](const at::Tensor& t) { return linear.forward(t); }).requires_grad());
}

TEST(Recompute, AWeightCastInsideDoesNotLoseItsGradientOutside) {
  Linear linear(4, 4, {});
  fill(linear);
  const at::Tensor x = at::ones({2, 4}).set_requires_grad(true);
  at::Tensor first, second;
  {
    const Autocast scope;
    first = recomputed(linear, x, [&](const at::Tensor& t) { return linear.forward(t); });
    second = linear.forward(x);
  }
  second.sum().backward();
  EXPECT_TRUE(linear.weight().grad().defined());
}

}  // namespace
}  // namespace lockstep::nn
