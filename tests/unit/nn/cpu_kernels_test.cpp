// Own CPU kernels against ATen's plain forms, values and every gradient.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "nn/attention.h"
#include "nn/bias_activation.h"
#include "nn/cpu_kernels.h"
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
  Way(const std::vector<at::Tensor>& given, bool wide) {
    for (const at::Tensor& tensor : given)
      inputs.push_back(tensor.detach().to(wide ? at::kDouble : at::kFloat).clone().set_requires_grad(true));
  }
  std::vector<at::Tensor> inputs;
};

/// y of `own` and its gradients against `wanted` of `plain` and its own, behind sum(y to_y).
void expect_value_and_gradients(const Way& own, const at::Tensor& y, const Way& plain, const at::Tensor& wanted,
                                const at::Tensor& to_y, double tolerance) {
  expect_close(y.detach().to(at::kDouble), wanted.detach(), tolerance, "value");
  (y.to(at::kFloat) * to_y).sum().backward();
  (wanted * to_y).sum().backward();
  for (size_t i = 0; i < own.inputs.size(); ++i)
    expect_close(own.inputs[i].grad().to(at::kDouble), plain.inputs[i].grad(), tolerance,
                 "gradient " + std::to_string(i));
}

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

class BiasActivations : public ::testing::TestWithParam<std::tuple<Activation, int64_t, int64_t>> {
 protected:
  /// Value and gradients of x and bias, of `type`, against the plain form of the same numbers in fp64.
  void expect_plain(at::ScalarType type, double tolerance, double gradient_tolerance) const {
    const auto [activation, rows, width] = GetParam();
    const std::vector<at::Tensor> given = {draw({rows, width}, 1).detach().mul(4).to(type),
                                           draw({width}, 2).detach().to(type)};
    const at::Tensor to_y = draw({rows, width}, 3).detach().to(type);
    ASSERT_TRUE(suits_cpu_bias_activation(given[0], given[1], activation));
    std::vector<at::Tensor> own, plain;
    for (const at::Tensor& tensor : given) {
      own.push_back(tensor.clone().requires_grad_(true));
      plain.push_back(tensor.to(at::kDouble).requires_grad_(true));
    }
    const at::Tensor y = activate_biased(own[0], own[1], activation);
    const at::Tensor wanted = activate(plain[0] + plain[1], activation);
    EXPECT_EQ(y.scalar_type(), type);
    expect_close(y.detach().to(at::kDouble), wanted.detach(), tolerance, "value");
    y.backward(to_y);
    wanted.backward(to_y.to(at::kDouble));
    for (size_t i = 0; i < given.size(); ++i) {
      EXPECT_EQ(own[i].grad().scalar_type(), type);
      expect_close(own[i].grad().to(at::kDouble), plain[i].grad(), gradient_tolerance, "gradient " + std::to_string(i));
    }
    const c10::NoGradGuard no_grad;
    EXPECT_TRUE(at::equal(activate_biased(own[0], own[1], activation), y));
  }
};

TEST_P(BiasActivations, EqualThePlainFormWithEveryGradient) {
  expect_plain(at::kFloat, 1e-6, 2e-5);
  expect_plain(at::kBFloat16, 4e-3, 4e-3);
}

INSTANTIATE_TEST_SUITE_P(Shapes, BiasActivations,
                         ::testing::Combine(::testing::Values(Activation::kGeluTanh, Activation::kQuickGelu),
                                            ::testing::Values(1, 5, 600), ::testing::Values(1, 23, 64, 770)));

TEST(BiasActivation, AnyNumberKeepsItsDigits) {
  const c10::NoGradGuard no_grad;
  const at::Tensor x = at::tensor({-1e4, -100., -88., -20., -5., -0.5, -1e-3, -1e-20, 0., 1e-20, 1e-3, 0.5, 5., 20.,
                                   88., 100., 1e4, 1e18, std::numeric_limits<double>::infinity()});
  for (const Activation activation : {Activation::kGeluTanh, Activation::kQuickGelu}) {
    const at::Tensor wanted = activate(x, activation);
    const at::Tensor own = activate_biased(x.to(at::kFloat), at::zeros({x.size(0)}), activation).to(at::kDouble);
    for (int64_t i = 0; i < x.size(0); ++i) {
      const double expected = wanted[i].item<double>(), found = own[i].item<double>();
      if (std::isinf(expected))
        EXPECT_EQ(found, expected);
      else
        EXPECT_LE(std::fabs(found - expected), 4e-6 * std::fabs(expected) + 1e-30) << x[i].item<double>();
    }
    const at::Tensor nan = at::full({1}, std::numeric_limits<float>::quiet_NaN());
    EXPECT_TRUE(std::isnan(activate_biased(nan, at::zeros({1}), activation).item<float>()));
    EXPECT_TRUE(std::isnan(activate_biased(nan.to(at::kBFloat16), at::zeros({1}), activation).item<float>()));
  }
}

/// As in a network: the product leaves the bias to the activation, under autocast, too.
TEST(BiasActivation, BehindALinearLayerLikewise) {
  const std::vector<at::Tensor> given = {draw({2, 40, 24}, 1), draw({48, 24}, 2), draw({48}, 3)};
  const at::Tensor to_y = draw({2, 40, 48}, 4).detach();
  for (const bool is_autocast : {false, true}) {
    Way own(given, false), plain(given, true);
    const at::Tensor y = [&] {
      at::autocast::set_autocast_enabled(at::kCPU, is_autocast);
      const at::Tensor found =
          linear_activation_layer(own.inputs[0], own.inputs[1], own.inputs[2], Activation::kGeluTanh);
      at::autocast::set_autocast_enabled(at::kCPU, false);
      return found;
    }();
    EXPECT_EQ(y.scalar_type(), is_autocast ? at::kBFloat16 : at::kFloat);
    const at::Tensor wanted = at::gelu(at::linear(plain.inputs[0], plain.inputs[1], plain.inputs[2]), "tanh");
    const double tolerance = is_autocast ? 1e-2 : 2e-6;
    expect_value_and_gradients(own, y, plain, wanted, to_y, tolerance);
  }
}

/// Columns from `used` on are larger than all others, so that nobody reads them without a trace.
TEST(Softmax, StatisticsAndGradientEqualThePlainForm) {
  struct Shape {
    int64_t rows, width, used;
  };
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const Shape& shape :
         {Shape{1, 1, 1}, Shape{3, 16, 16}, Shape{3, 40, 33}, Shape{2, 40, 5}, Shape{5, 5000, 4999}, Shape{2, 64, 0}}) {
      const at::Tensor logits = draw({shape.rows, shape.width}, 1).detach().mul(4).to(type);
      logits.narrow(1, shape.used, shape.width - shape.used).fill_(1e4);
      const at::Tensor target = at::arange(shape.rows).mul(shape.used / 2).sub(1);  // the first is no column
      const at::Tensor stats = softmax_stats_on_cpu(logits, shape.used, target);
      const at::Tensor wide = logits.to(at::kDouble).narrow(1, 0, shape.used);
      const at::Tensor top = shape.used > 0 ? wide.amax(1) : at::zeros({shape.rows}, at::kDouble);
      if (shape.used > 0)
        EXPECT_TRUE(at::equal(stats[0].to(at::kDouble), top));
      else
        EXPECT_TRUE(at::equal(stats[0], at::full({shape.rows}, -std::numeric_limits<float>::infinity())));
      const at::Tensor exp = wide.sub(top.unsqueeze(1)).exp();
      if (shape.used == 0)
        EXPECT_TRUE(stats[1].eq(0).all().item<bool>());
      else
        expect_close(stats[1].to(at::kDouble), exp.sum(1), 1e-6, "sum");
      const at::Tensor factor = at::arange(shape.rows).add(1).to(at::kFloat).div(4), weight = factor.mul(3);
      at::Tensor wanted = at::zeros({shape.rows, shape.width}, at::kDouble);
      wanted.narrow(1, 0, shape.used).copy_(exp * factor.unsqueeze(1));
      for (int64_t row = 0; row < shape.rows; ++row) {
        const int64_t column = target[row].item<int64_t>();
        const bool is_column = 0 <= column && column < shape.used;
        EXPECT_EQ(stats[2][row].item<double>(), is_column ? wide[row][column].item<double>() : 0);
        if (is_column) wanted[row][column] -= weight[row].item<double>();
      }
      softmax_gradient_on_cpu(logits, shape.used, target, top.to(at::kFloat), factor, weight);
      if (shape.used > 0) expect_close(logits.to(at::kDouble), wanted, type == at::kFloat ? 1e-6 : 4e-3, "gradient");
      EXPECT_TRUE(logits.narrow(1, shape.used, shape.width - shape.used).eq(0).all().item<bool>());
    }
  }
}

/// Queries of two heads that share keys lie one after the other; those before the first are another call's.
TEST(Softmax, CausalScoresEqualThePlainFormWithTheirGradient) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const auto& [first, length] : std::vector<std::pair<int64_t, int64_t>>{
             {0, 1}, {0, 5}, {0, 16}, {0, 77}, {0, 130}, {5, 6}, {16, 32}, {40, 77}, {128, 256}}) {
      const int64_t queries = length - first;
      const at::Tensor scores = draw({3, 2 * queries, length}, 1).detach().mul(20).to(type);
      const at::Tensor dy = draw({3, 2 * queries, length}, 2).detach().to(type), wide = scores.to(at::kDouble);
      wide.requires_grad_(true);
      const at::Tensor mask = causal_mask(length, at::kDouble).narrow(0, first, queries).repeat({2, 1});
      const at::Tensor wanted = at::softmax(wide * 0.3 + mask, -1);
      wanted.backward(dy.to(at::kDouble));
      causal_softmax_on_cpu(scores, 0.3, first);
      const double tolerance = type == at::kFloat ? 2e-6 : 8e-3;
      at::Tensor dscores = dy.clone();
      causal_softmax_backward_on_cpu(scores, dscores, 0.3, first);
      if (length == 1) {
        EXPECT_TRUE(scores.eq(1).all().item<bool>());
        EXPECT_TRUE(dscores.eq(0).all().item<bool>());
      } else {
        expect_close(scores.to(at::kDouble), wanted.detach(), tolerance, "softmax");
        expect_close(dscores.to(at::kDouble), wide.grad(), tolerance, "gradient");
      }
      EXPECT_TRUE(scores.masked_select(mask.isinf().expand_as(scores)).eq(0).all().item<bool>());
      EXPECT_TRUE(dscores.masked_select(mask.isinf().expand_as(scores)).eq(0).all().item<bool>());
    }
  }
}

struct CpuAttentionCase {
  int64_t length;
  bool is_autocast = false;
  double dropout = 0;
  bool has_row_numbers = false;
  int64_t num_keys = 0;  ///< 0: as many as queries, under a causal mask.
};

class CpuAttentions : public ::testing::TestWithParam<CpuAttentionCase> {};

/// As a network calls it; grouped heads share their keys. The plain form draws all probabilities at once.
TEST_P(CpuAttentions, EqualThePlainFormWithEveryGradient) {
  const auto& [length, is_autocast, probability, has_row_numbers, other_keys] = GetParam();
  const bool is_causal = other_keys == 0;
  const int64_t num_keys = is_causal ? length : other_keys;
  const std::vector<at::Tensor> given = {draw({2, 4, length, 8}, 1), draw({2, 2, num_keys, 8}, 2),
                                         draw({2, 2, num_keys, 8}, 3)};
  const at::Tensor to_y = draw({2, 4, length, 8}, 4).detach();
  const int64_t rows = 2 * 4 * length;
  const Dropout dropped{.probability = probability,
                        .key = 17,
                        .rows = has_row_numbers ? at::arange(rows).mul_(3).add_(1000) : at::Tensor()};
  Way own(given, false), plain(given, true);
  at::autocast::set_autocast_enabled(at::kCPU, is_autocast);
  // As projections of sequences [L, B, ...] give them.
  const auto by_position = [](const at::Tensor& x) {
    return x.permute({2, 0, 1, 3}).contiguous().permute({1, 2, 0, 3});
  };
  const at::Tensor y = attention(by_position(own.inputs[0]), by_position(own.inputs[1]), by_position(own.inputs[2]), {},
                                 is_causal, dropped);
  {
    const c10::NoGradGuard guard;
    EXPECT_TRUE(at::equal(y, attention(own.inputs[0], own.inputs[1], own.inputs[2], {}, is_causal, dropped)));
  }
  at::autocast::set_autocast_enabled(at::kCPU, false);
  const auto of_all_heads = [](const at::Tensor& x) { return x.repeat_interleave(2, 1); };
  at::Tensor scores = at::matmul(plain.inputs[0], of_all_heads(plain.inputs[1]).transpose(2, 3)) / std::sqrt(8.0);
  if (is_causal) scores = scores + causal_mask(length, at::kDouble);
  const at::Tensor kept = dropout(at::ones({2, 4, length, num_keys}), dropped).to(at::kDouble);
  const at::Tensor wanted = at::matmul(at::softmax(scores, -1) * kept, of_all_heads(plain.inputs[2]));
  expect_value_and_gradients(own, y, plain, wanted, to_y, is_autocast ? 2e-2 : 5e-6);
}

// Below and above what one block and what products take, in both types.
INSTANTIATE_TEST_SUITE_P(Causal, CpuAttentions,
                         ::testing::Values(CpuAttentionCase{2}, CpuAttentionCase{37}, CpuAttentionCase{37, true},
                                           CpuAttentionCase{128}, CpuAttentionCase{129}, CpuAttentionCase{300},
                                           CpuAttentionCase{769}, CpuAttentionCase{400, true},
                                           CpuAttentionCase{37, false, 0.2}, CpuAttentionCase{300, false, 0.2},
                                           CpuAttentionCase{300, false, 0.2, true},
                                           CpuAttentionCase{300, true, 0.2, true}));

// One query, fewer queries than keys and more, as many; beyond what products take.
INSTANTIATE_TEST_SUITE_P(
    AllKeys, CpuAttentions,
    ::testing::Values(CpuAttentionCase{1, false, 0, false, 50}, CpuAttentionCase{7, false, 0, false, 50},
                      CpuAttentionCase{50, false, 0, false, 7}, CpuAttentionCase{50, true, 0, false, 50},
                      CpuAttentionCase{9, false, 0, false, 2}, CpuAttentionCase{197, true, 0.2, true, 197},
                      CpuAttentionCase{300, false, 0, false, 300}));

TEST(CpuAttention, AnEmptyBatchHasNoResultsAndNoGradients) {
  const at::Tensor q = at::empty({0, 2, 5, 4}).requires_grad_(), k = at::empty({0, 2, 5, 4}), v = k.clone();
  for (const bool is_causal : {true, false}) {
    const at::Tensor y = attention(q, k, v, {}, is_causal);
    EXPECT_EQ(y.sizes(), q.sizes());
    y.sum().backward();
    EXPECT_EQ(q.grad().sizes(), q.sizes());
  }
}

TEST(Softmax, InfinitiesCountAsNothingAndNanIsSeen) {
  constexpr float kEndless = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor logits = at::full({3, 40}, -kEndless), target = at::zeros({3}, at::kLong);
  logits[1].fill_(-90).select(0, 39).fill_(2);
  logits[2].fill_(1).select(0, 17).fill_(kNan);
  const at::Tensor stats = softmax_stats_on_cpu(logits, 40, target);
  EXPECT_EQ(stats[0][0].item<float>(), -kEndless);
  EXPECT_EQ(stats[1][0].item<float>(), 0);
  EXPECT_EQ(stats[1][1].item<float>(), 1);
  EXPECT_TRUE(std::isnan(stats[1][2].item<float>()));
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
