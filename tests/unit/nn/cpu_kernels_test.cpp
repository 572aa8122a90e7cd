// Own CPU kernels against ATen's plain forms, values and every gradient.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <functional>

#include "nn/attention.h"
#include "nn/fused_norm.h"
#include "nn/layers.h"
#include "nn/packed_linear.h"
#include "nn/product.h"
#include "nn/recompute.h"
#include "nn/transformer.h"
#include "support/tensor_golden.h"

namespace lockstep::nn {
namespace {

using ::lockstep::tests::expect_close;

at::Tensor draw(at::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed)).set_requires_grad(true);
}

/// Values and gradients of two ways to compute from copies of the same inputs, in fp64 where `wide`.
struct Way {
  Way(std::vector<at::Tensor> given, bool wide) {
    for (const at::Tensor& tensor : given)
      inputs.push_back(tensor.detach().to(wide ? at::kDouble : at::kFloat).clone().set_requires_grad(true));
  }
  std::vector<at::Tensor> inputs;
};

class NormShapes : public ::testing::TestWithParam<std::tuple<int64_t, int64_t>> {};

TEST_P(NormShapes, SumAndNormEqualThePlainFormWithEveryGradient) {
  const auto [rows, width] = GetParam();
  const std::vector<at::Tensor> given = {draw({rows, width}, 1), draw({rows, width}, 2), draw({width}, 3),
                                         draw({width}, 4)};
  const at::Tensor to_sum = draw({rows, width}, 5).detach(), to_out = draw({rows, width}, 6).detach();
  Way own(given, false), plain(given, true);
  const auto [sum, out] =
      add_layer_norm(own.inputs[0].mul(3), own.inputs[1].add(2), own.inputs[2], own.inputs[3], 1e-5, at::kFloat);
  const at::Tensor plain_sum = plain.inputs[0] * 3 + plain.inputs[1] + 2;
  const at::Tensor plain_out = at::layer_norm(plain_sum, {width}, plain.inputs[2], plain.inputs[3], 1e-5);
  expect_close(sum.detach().to(at::kDouble), plain_sum.detach(), 1e-6, "sum");
  expect_close(out.detach().to(at::kDouble), plain_out.detach(), 1e-5, "norm");
  (sum * to_sum + out * to_out).sum().backward();
  (plain_sum * to_sum + plain_out * to_out).sum().backward();
  for (size_t i = 0; i < given.size(); ++i)
    expect_close(own.inputs[i].grad().to(at::kDouble), plain.inputs[i].grad(), 2e-5, "gradient " + std::to_string(i));
}

TEST_P(NormShapes, NormAloneLikewise) {
  const auto [rows, width] = GetParam();
  const std::vector<at::Tensor> given = {draw({rows, width}, 7), draw({width}, 8), draw({width}, 9)};
  const at::Tensor to_out = draw({rows, width}, 10).detach();
  Way own(given, false), plain(given, true);
  (layer_norm(own.inputs[0].add(100), own.inputs[1], own.inputs[2], 1e-5, at::kFloat) * to_out).sum().backward();
  (at::layer_norm(plain.inputs[0] + 100, {width}, plain.inputs[1], plain.inputs[2], 1e-5) * to_out).sum().backward();
  for (size_t i = 0; i < given.size(); ++i)  // 100 costs two of the seven digits
    expect_close(own.inputs[i].grad().to(at::kDouble), plain.inputs[i].grad(), 1e-4, "gradient " + std::to_string(i));
}

/// As a block uses it: the input goes on beside its norm.
TEST_P(NormShapes, InputBesideItsNormLikewise) {
  const auto [rows, width] = GetParam();
  const std::vector<at::Tensor> given = {draw({rows, width}, 7), draw({width}, 8), draw({width}, 9)};
  const at::Tensor to_x = draw({rows, width}, 10).detach(), to_out = draw({rows, width}, 11).detach();
  Way own(given, false), plain(given, true);
  const auto [x, out] = layer_norm_beside(own.inputs[0].mul(2), own.inputs[1], own.inputs[2], 1e-5, at::kFloat);
  (x * to_x + out * to_out).sum().backward();
  const at::Tensor plain_x = plain.inputs[0] * 2;
  (plain_x * to_x + at::layer_norm(plain_x, {width}, plain.inputs[1], plain.inputs[2], 1e-5) * to_out).sum().backward();
  for (size_t i = 0; i < given.size(); ++i)
    expect_close(own.inputs[i].grad().to(at::kDouble), plain.inputs[i].grad(), 2e-5, "gradient " + std::to_string(i));
}

TEST(Attention, PartsAndTheirGradientsAreThoseOfViews) {
  const at::Tensor own = draw({2, 5, 36}, 1), plain = own.detach().clone().requires_grad_(true);
  const auto parts = split_heads(own, 3, 4);
  const auto wanted = plain.view({2, 5, 3, 4, 3}).permute({2, 0, 3, 1, 4}).unbind(0);
  at::Tensor sum = at::zeros({}), plain_sum = at::zeros({});
  for (const size_t i : {size_t{0}, size_t{2}}) {  // the middle one gets no gradient
    const at::Tensor weight = draw({2, 4, 5, 3}, 2 + i).detach();
    EXPECT_TRUE(at::equal(parts[i], wanted[i]));
    sum = sum + (parts[i] * weight).sum();
    plain_sum = plain_sum + (wanted[i] * weight).sum();
  }
  sum.backward();
  plain_sum.backward();
  EXPECT_TRUE(at::equal(own.grad(), plain.grad()));
  const at::Tensor grouped = draw({3, 7}, 9);
  const auto uneven = split_apart(grouped, 1, {4, 2, 1});
  (uneven[0].sum() + 2 * uneven[1].sum() + 3 * uneven[2].sum()).backward();
  EXPECT_TRUE(at::equal(grouped.grad(), at::tensor({1.f, 1.f, 1.f, 1.f, 2.f, 2.f, 3.f}).expand({3, 7})));
}

INSTANTIATE_TEST_SUITE_P(Shapes, NormShapes,
                         ::testing::Combine(::testing::Values(1, 600, 601), ::testing::Values(16, 23, 192, 768)));

TEST(FusedNorm, OnlyOneOfBothResultsIsUsed) {
  const at::Tensor x = draw({400, 32}, 1), r = draw({400, 32}, 2), gain = draw({32}, 3), bias = draw({32}, 4);
  add_layer_norm(x, r, gain, bias, 1e-5, at::kFloat).first.square().sum().backward();
  expect_close(x.grad(), 2 * (x + r).detach(), 1e-6, "of the sum alone");
  EXPECT_EQ(gain.grad().abs().max().item<float>(), 0);
}

TEST(PackedLinear, AnyNumberOfRowsAndEveryTypeEqualAten) {
  const c10::NoGradGuard no_grad;
  const at::Tensor weight = draw({48, 33}, 1), bias = draw({48}, 2);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const PackedLinear packed(weight, bias, type);
    const double tolerance = type == at::kFloat ? 1e-6 : 1e-2;
    for (const int64_t rows : {1, 3, 100}) {
      const at::Tensor x = draw({rows, 33}, 3), residual = draw({rows, 48}, 4).to(type);
      const at::Tensor plain = at::linear(x, weight, bias);
      expect_close(packed.forward(x).to(at::kFloat), plain, tolerance, "product");
      expect_close(packed.forward(x, PackedLinear::Then::kGelu).to(at::kFloat), at::gelu(plain), tolerance, "gelu");
      expect_close(packed.forward(x, PackedLinear::Then::kSilu).to(at::kFloat), at::silu(plain), tolerance, "silu");
      expect_close(packed.forward_add(x, residual).to(at::kFloat), plain + residual.to(at::kFloat), tolerance, "sum");
    }
    EXPECT_EQ(packed.forward(at::empty({0, 33})).sizes(), (std::vector<int64_t>{0, 48}));
  }
}

/// Value and gradients of sum(f(x, weight, bias) * scale), where scale may broadcast.
std::vector<at::Tensor> value_and_gradients(const std::function<at::Tensor(at::Tensor, at::Tensor, at::Tensor)>& f,
                                            const std::vector<at::Tensor>& inputs, const at::Tensor& scale) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& input : inputs)
    leaves.push_back(input.defined() ? input.detach().clone().set_requires_grad(true) : input);
  std::vector<at::Tensor> found{f(leaves[0], leaves[1], leaves[2])};
  found[0].mul(scale.to(found[0].scalar_type())).sum().backward();
  for (const at::Tensor& leaf : leaves) found.push_back(leaf.defined() ? leaf.grad() : leaf);
  return found;
}

/// Elsewhere these products are LibTorch's own, and equal by definition.
bool products_are_onednns() {
#if defined(__x86_64__)
  return !__builtin_cpu_is("intel") && at::hasMKLDNN();
#else
  return false;
#endif
}

// Large enough for oneDNN's product, and too small for it; gradients that repeat one row, and transposed inputs.
TEST(Product, LinearEqualsTheProductInDoublePrecision) {
  if (!products_are_onednns()) GTEST_SKIP() << "this CPU's products are not oneDNN's";
  for (const int64_t width : {8, 96}) {
    const at::Tensor weight = draw({320, width}, 11).detach(), bias = draw({320}, 12).detach();
    const at::Tensor dense = draw({3, 50, width}, 13).detach(),
                     turned = draw({50, 3, width}, 14).detach().transpose(0, 1);
    for (const at::Tensor& x : {dense, turned})
      for (const at::Tensor& some_bias : {bias, at::Tensor()})
        for (const at::Tensor& scale : {draw({3, 50, 320}, 15).detach(), draw({320}, 22).detach()}) {
          const auto in_double = [](const at::Tensor& a) { return a.defined() ? a.to(at::kDouble) : a; };
          const auto got = value_and_gradients(linear_layer, {x, weight, some_bias}, scale);
          const auto truth = value_and_gradients(
              [](const at::Tensor& a, const at::Tensor& w, const at::Tensor& b) { return at::linear(a, w, b); },
              {in_double(x), in_double(weight), in_double(some_bias)}, scale);
          for (size_t i = 0; i < got.size(); ++i) {
            ASSERT_EQ(got[i].defined(), truth[i].defined());
            if (got[i].defined()) expect_close(got[i], truth[i].to(at::kFloat), 1e-6, "part");
          }
        }
  }
  at::Tensor wide = at::zeros({200, 300});
  const at::Tensor a = draw({200, 80}, 16).detach(), b = draw({80, 150}, 17).detach();
  product_into(wide.narrow(1, 20, 150), a, b);
  expect_close(wide.narrow(1, 20, 150), at::mm(a, b), 1e-6, "part of another tensor");
  EXPECT_EQ(wide.narrow(1, 170, 130).count_nonzero().item<int64_t>(), 0);
}

TEST(Product, ARecomputedBlockHasTheGradientsOfAKeptOne) {
  if (!products_are_onednns()) GTEST_SKIP() << "this CPU's products are not oneDNN's";
  Mlp mlp(96, 384, Activation::kGelu, at::TensorOptions());
  {
    const c10::NoGradGuard no_grad;
    for (auto& parameter : mlp.named_parameters()) parameter.tensor->normal_(0, 0.1);
  }
  const at::Tensor x = draw({100, 96}, 23), again = x.detach().clone().set_requires_grad(true);
  mlp.forward(x).square().sum().backward();
  std::vector<at::Tensor> kept;
  for (auto& parameter : mlp.named_parameters()) {
    kept.push_back(parameter.tensor->grad().clone());
    parameter.tensor->mutable_grad().reset();
  }
  recomputed(mlp, again, [&](const at::Tensor& input) { return mlp.forward(input); }).square().sum().backward();
  EXPECT_TRUE(at::equal(again.grad(), x.grad()));
  for (size_t i = 0; i < kept.size(); ++i)
    EXPECT_TRUE(at::equal(mlp.named_parameters()[i].tensor->grad(), kept[i])) << mlp.named_parameters()[i].name;
}

TEST(Product, AutocastTakesItAsAnyLinear) {
  if (!products_are_onednns()) GTEST_SKIP() << "this CPU's products are not oneDNN's";
  const at::Tensor x = draw({150, 96}, 24).detach(), weight = draw({320, 96}, 25).detach();
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const at::Tensor cast = linear_layer(x, weight, {});
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  EXPECT_EQ(cast.scalar_type(), at::kBFloat16);
  expect_close(cast.to(at::kFloat), at::linear(x, weight), 1e-2, "in bf16");
}

// What asks for no gradient gets none: the input of a first layer, the weight of a locked one.
TEST(Product, NoGradientWhereNoneIsAskedFor) {
  if (!products_are_onednns()) GTEST_SKIP() << "this CPU's products are not oneDNN's";
  const at::Tensor x = draw({150, 96}, 18).detach(), weight = draw({320, 96}, 19).detach().set_requires_grad(true);
  linear_layer(x, weight, {}).sum().backward();
  EXPECT_FALSE(x.grad().defined());
  ASSERT_TRUE(weight.grad().defined());
  const at::Tensor own = x.clone().set_requires_grad(true), locked = weight.detach();
  linear_layer(own, locked, {}).sum().backward();
  EXPECT_TRUE(own.grad().defined());
  EXPECT_FALSE(locked.grad().defined());
  EXPECT_FALSE(linear_layer(x, locked, {}).requires_grad());
}

// A hidden state of 1,024 fp32 channels gets channels of zeros in inference.
TEST(Mlp, PaddedHiddenStateChangesNothing) {
  for (const Activation activation : {Activation::kGelu, Activation::kQuickGelu})
    for (const int64_t hidden : {1024, 1000}) {
      Mlp mlp(64, hidden, activation, at::TensorOptions());
      const c10::NoGradGuard no_grad;
      for (auto& parameter : mlp.named_parameters()) parameter.tensor->normal_(0, 0.3);
      const at::Tensor x = draw({7, 64}, 20).detach(), residual = draw({7, 64}, 21).detach();
      const at::Tensor plain = mlp.forward(x), sum = mlp.forward_add(x, residual);
      mlp.prepare_inference(at::kFloat);
      expect_close(mlp.forward(x), plain, 2e-6, "packed");
      expect_close(mlp.forward_add(x, residual), sum, 2e-6, "packed sum");
    }
}

}  // namespace
}  // namespace lockstep::nn
