#include "nn/typed_copies.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include "nn/product.h"
#include "parallel/grad_sync.h"
#include "train/precision.h"

namespace lockstep::nn {
namespace {

struct Gradients {
  at::Tensor y, x, weight, bias;
};

class Copies : public testing::Test {
 protected:
  /// One pass through a layer under autocast, with the copies or, for nullptr, without.
  Gradients pass(TypedCopies* copies, double factor) {
    weight_.mutable_grad() = bias_.mutable_grad() = at::Tensor();
    const at::Tensor x = x_.detach().clone().set_requires_grad(true);
    at::Tensor y;
    {
      const train::AutocastGuard guard(c10::DeviceType::CPU, at::kBFloat16, copies);
      y = linear_layer(x, weight_, bias_);
    }
    expect_own_layer(y);
    y.to(at::kFloat).mul(factor).sum().backward();
    return {y.detach(), x.grad(), weight_.grad(), bias_.grad()};
  }
  /// Not at::linear, which knows no copies.
  static void expect_own_layer(const at::Tensor& y) {
    EXPECT_NE(y.grad_fn()->name().find("LinearLayer"), std::string::npos) << y.grad_fn()->name();
  }
  static void expect_equal(const Gradients& got, const Gradients& want) {
    EXPECT_TRUE(got.y.equal(want.y));
    EXPECT_TRUE(got.x.equal(want.x));
    EXPECT_TRUE(got.weight.equal(want.weight));
    EXPECT_TRUE(got.bias.equal(want.bias));
    EXPECT_EQ(got.weight.scalar_type(), at::kFloat);
    EXPECT_EQ(got.bias.scalar_type(), at::kFloat);
  }

  at::Tensor x_ = at::arange(12 * 8, at::kFloat).sin().view({12, 8});
  at::Tensor weight_ = at::arange(16 * 8, at::kFloat).mul(0.7).cos().view({16, 8}).set_requires_grad(true);
  at::Tensor bias_ = at::arange(16, at::kFloat).mul(0.3).sin().set_requires_grad(true);
  // Weights of training have a sink, so that their layers are lockstep's own.
  std::unique_ptr<parallel::GradSync> sync_ = parallel::make_grad_sync_none({{"weight", &weight_}, {"bias", &bias_}});
};

TEST_F(Copies, PassesWithThemAreThoseWithout) {
  TypedCopies copies(at::kBFloat16);
  for (int step = 1; step <= 3; ++step) {
    expect_equal(pass(&copies, step), pass(nullptr, step));
    const c10::NoGradGuard no_grad;  // an update
    weight_.add_(0.25);
    bias_.sub_(0.125);
  }
}

TEST_F(Copies, AreOfOneScopeAndOnlyOfParameters) {
  TypedCopies copies(at::kBFloat16);
  const at::Tensor outside = typed_parameter(weight_, at::kBFloat16);
  at::Tensor first;
  {
    const TypedCopies::Scope scope(copies);
    first = typed_parameter(weight_, at::kBFloat16);
    EXPECT_TRUE(first.equal(outside));
    EXPECT_TRUE(typed_parameter(weight_, at::kBFloat16).is_same(first)) << "made once";
    EXPECT_TRUE(typed_parameter(weight_, at::kFloat).is_same(weight_));
    EXPECT_FALSE(typed_parameter(weight_, at::kHalf).is_same(first)) << "another type";
    const at::Tensor view = weight_.narrow(0, 0, 4), constant = weight_.detach();
    EXPECT_FALSE(typed_parameter(view, at::kBFloat16).is_same(typed_parameter(view, at::kBFloat16)));
    EXPECT_FALSE(typed_parameter(constant, at::kBFloat16).is_same(typed_parameter(constant, at::kBFloat16)));
  }
  EXPECT_FALSE(typed_parameter(weight_, at::kBFloat16).is_same(first));
  const c10::NoGradGuard no_grad;
  weight_.add_(1.0);
  const TypedCopies::Scope scope(copies);
  EXPECT_TRUE(first.equal(weight_.to(at::kBFloat16))) << "made again when the scope began";
}

/// Of a pipeline: the passes forward of several micro-batches come before the first one back.
TEST_F(Copies, PassesMayOverlap) {
  TypedCopies copies(at::kBFloat16);
  const auto run = [&](TypedCopies* used) {
    weight_.mutable_grad() = at::Tensor();
    std::vector<at::Tensor> losses;
    for (int micro = 0; micro < 3; ++micro) {
      const train::AutocastGuard guard(c10::DeviceType::CPU, at::kBFloat16, used);
      const at::Tensor y = linear_layer(x_.mul(micro + 1), weight_, bias_);
      expect_own_layer(y);
      losses.push_back(y.to(at::kFloat).pow(2).sum());
    }
    for (const at::Tensor& loss : losses) loss.backward();
    return weight_.grad();
  };
  const at::Tensor got = run(&copies), want = run(nullptr);
  EXPECT_TRUE(got.equal(want));
}

}  // namespace
}  // namespace lockstep::nn
