// Own CPU kernels against ATen's plain forms, values and every gradient.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "nn/fused_norm.h"
#include "nn/layers.h"
#include "nn/packed_linear.h"
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
      add_layer_norm(own.inputs[0].mul(3), own.inputs[1].add(2), own.inputs[2], own.inputs[3], 1e-5);
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
  (layer_norm(own.inputs[0].add(100), own.inputs[1], own.inputs[2], 1e-5) * to_out).sum().backward();
  (at::layer_norm(plain.inputs[0] + 100, {width}, plain.inputs[1], plain.inputs[2], 1e-5) * to_out).sum().backward();
  for (size_t i = 0; i < given.size(); ++i)  // 100 costs two of the seven digits
    expect_close(own.inputs[i].grad().to(at::kDouble), plain.inputs[i].grad(), 1e-4, "gradient " + std::to_string(i));
}

INSTANTIATE_TEST_SUITE_P(Shapes, NormShapes,
                         ::testing::Combine(::testing::Values(1, 600, 601), ::testing::Values(16, 23, 192, 768)));

TEST(FusedNorm, OnlyOneOfBothResultsIsUsed) {
  const at::Tensor x = draw({400, 32}, 1), r = draw({400, 32}, 2), gain = draw({32}, 3), bias = draw({32}, 4);
  add_layer_norm(x, r, gain, bias, 1e-5).first.square().sum().backward();
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

}  // namespace
}  // namespace lockstep::nn
