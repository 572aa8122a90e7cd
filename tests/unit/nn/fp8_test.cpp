// Numbers of 8 bits against the tables of the formats, scales against their formula, linear layers against products in
// fp64.
#include "nn/fp8.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>

#include "core/error.h"
#include "nn/fp8_linear.h"
#include "nn/fp8_state.h"
#include "nn/parallel_linear.h"
#include "nn/work_recorder.h"
#include "support/tensor_golden.h"
#include "support/wave.h"

namespace lockstep::nn {
namespace {

using tests::expect_close;

constexpr at::ScalarType kE4m3 = at::kFloat8_e4m3fn, kE5m2 = at::kFloat8_e5m2;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

using tests::wave;

at::Tensor number(double value) { return at::full({}, value, at::kFloat); }

at::Tensor fp8_dequantize(const Fp8Tensor& x, at::ScalarType type) {
  const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
  return x.bits.to(wide).mul(x.inverse_scale).to(type);
}

struct Rounding {
  double from, to;
};

void expect_roundings(at::ScalarType type, const std::vector<Rounding>& cases) {
  for (const auto& [from, to] : cases)
    for (const double sign : {1.0, -1.0})
      for (const at::ScalarType wide : {at::kFloat, at::kDouble}) {
        const Fp8Tensor x = fp8_quantize(at::full({1}, sign * from, wide), type, number(1));
        EXPECT_EQ(fp8_dequantize(x, wide).item<double>(), sign * to) << c10::toString(type) << ": " << sign * from;
      }
}

TEST(Fp8Numbers, E4m3RoundsToNearestEvenAndSaturates) {
  EXPECT_EQ(fp8_max(kE4m3), 448.0);  // 1.75 x 2^8
  // Steps between 16 and 32 are 2, between 1 and 2 an eighth, below 2^-6 always 2^-9.
  expect_roundings(kE4m3, {{0, 0},
                           {1, 1},
                           {17, 16},
                           {19, 20},
                           {18.9, 18},
                           {19.1, 20},
                           {1.0625, 1},
                           {1.1875, 1.25},
                           {1.07, 1.125},
                           {448, 448},
                           {431, 416},
                           {432, 448},
                           {449, 448},
                           {1e9, 448},
                           {kInfinity, 448},
                           {std::ldexp(1, -9), std::ldexp(1, -9)},
                           {std::ldexp(1, -10), 0},
                           {std::ldexp(1.01, -10), std::ldexp(1, -9)},
                           {std::ldexp(3, -10), std::ldexp(1, -8)},
                           {std::ldexp(7.4, -9), std::ldexp(7, -9)}});
}

TEST(Fp8Numbers, E5m2RoundsToNearestEvenAndSaturates) {
  EXPECT_EQ(fp8_max(kE5m2), 57344.0);  // 1.75 x 2^15
  expect_roundings(kE5m2, {{0, 0},
                           {1, 1},
                           {1.125, 1},
                           {1.375, 1.5},
                           {1.126, 1.25},
                           {9, 8},
                           {11, 12},
                           {57344, 57344},
                           {53248, 49152},
                           {53249, 57344},
                           {60000, 57344},
                           {65536, 57344},
                           {kInfinity, 57344},
                           {std::ldexp(1, -16), std::ldexp(1, -16)},
                           {std::ldexp(1, -17), 0},
                           {std::ldexp(3, -17), std::ldexp(1, -15)}});
}

TEST(Fp8Numbers, EveryNumberOfTheFormatsIsItself) {
  for (const at::ScalarType type : {kE4m3, kE5m2}) {
    const at::Tensor all = at::arange(256, at::kInt).to(at::kByte).view(type), wide = all.to(at::kFloat);
    const at::Tensor finite = wide.index({wide.isfinite()});
    EXPECT_EQ(finite.numel(), type == kE4m3 ? 254 : 248);  // two NaN; two infinities and six NaN
    EXPECT_EQ(finite.max().item<double>(), fp8_max(type));
    EXPECT_TRUE(at::equal(fp8_quantize(finite, type, number(1)).bits.to(at::kFloat), finite));
  }
  EXPECT_TRUE(std::isnan(fp8_quantize(at::full({1}, NAN), kE4m3, number(1)).bits.to(at::kFloat).item<float>()));
  EXPECT_THROW(fp8_max(at::kHalf), Error);
}

TEST(Fp8Numbers, ScaleGoesInAndComesOut) {
  const at::Tensor x = at::tensor({0.001, -0.0005, 0.00026});
  const Fp8Tensor narrow = fp8_quantize(x, kE4m3, number(4096));  // 4.096, -2.048, 1.06496 -> 4, -2, 1.125
  EXPECT_TRUE(at::equal(narrow.bits.to(at::kFloat), at::tensor({4.0f, -2.0f, 1.125f})));
  EXPECT_TRUE(at::equal(fp8_dequantize(narrow, at::kFloat), at::tensor({4.0f, -2.0f, 1.125f}).div(4096)));
  // bf16 is widened before it is scaled: rounding 1.0078125 * 17 to 8 bits of mantissa first would give 17, a tie, and
  // then 16.
  EXPECT_EQ(fp8_quantize(at::full({1}, 1.0078125, at::kBFloat16), kE4m3, number(17)).bits.to(at::kFloat).item<float>(),
            18.0f);
}

/// Half a step: an eighth or a quarter of the power of two below a number, or the smallest step.
TEST(Fp8Numbers, ErrorStaysBelowHalfAStep) {
  for (const at::ScalarType type : {kE4m3, kE5m2})
    for (const at::ScalarType from : {at::kFloat, at::kBFloat16, at::kDouble}) {
      const at::Tensor x = wave({4096}, 0.2, 1.0).pow(5).mul(fp8_max(type) / 3).to(from), wide = x.to(at::kDouble);
      const at::Tensor error = fp8_dequantize(fp8_quantize(x, type, number(1)), at::kDouble).sub(wide).abs();
      const double relative = type == kE4m3 ? std::ldexp(1, -4) : std::ldexp(1, -3),
                   smallest = type == kE4m3 ? std::ldexp(1, -10) : std::ldexp(1, -17);
      EXPECT_TRUE(error.le(wide.abs().mul(relative).clamp_min(smallest)).all().item<bool>());
      EXPECT_GT(error.max().item<double>(), 0.0);
    }
}

TEST(Fp8Scale, FollowsTheFormula) {
  const at::Tensor amax = at::tensor({7.0f, 7.0f, 0.0f, std::numeric_limits<float>::infinity(), std::nanf(""), 1e-38f});
  const at::Tensor max = at::tensor({448.0f, 57344.0f, 448.0f, 448.0f, 448.0f, 57344.0f}), before = at::full({6}, 3.0f);
  const at::Tensor scale = fp8_scale(amax, max, 0, before);
  EXPECT_TRUE(at::equal(scale, at::tensor({64.0f, 8192.0f, 3.0f, 3.0f, 3.0f, std::numeric_limits<float>::max()})))
      << scale;
  EXPECT_TRUE(at::equal(fp8_scale(amax, max, 2, before).narrow(0, 0, 3), at::tensor({16.0f, 2048.0f, 3.0f})));
  EXPECT_EQ(fp8_amax(at::tensor({1.0f, -5.0f, 3.0f})).item<float>(), 5.0f);
  EXPECT_EQ(fp8_amax(at::tensor({1.0f, 6.0f, 3.0f}).to(at::kBFloat16)).item<float>(), 6.0f);
}

TEST(Fp8Product, EnginesAgree) {
  // Sizes as the matrix units want them. at::_scaled_mm has a CPU kernel, which is what this can compare with.
  for (const at::ScalarType a_type : {kE4m3, kE5m2}) {
    const Fp8Tensor a = fp8_quantize(wave({24, 32}, 0.3, 50), a_type, number(7)),
                    b = fp8_quantize(wave({48, 32}, 1.3), kE4m3, number(200));
    const at::Tensor want = fp8_dequantize(a, at::kDouble).mm(fp8_dequantize(b, at::kDouble).t());
    for (const Fp8Engine engine : {Fp8Engine::kEmulated, Fp8Engine::kScaledMm}) {
      expect_close(fp8_product(a, b, at::kFloat, engine, false), want, 1e-6, "fp32");
      expect_close(fp8_product(a, b, at::kBFloat16, engine, true), want, std::ldexp(1, -8), "bf16");
      const at::Tensor bias = wave({48}, 2.1);
      expect_close(fp8_product(a, b, at::kFloat, engine, false, bias), want + bias.to(at::kDouble), 1e-6, "fp32, bias");
      expect_close(fp8_product(a, b, at::kBFloat16, engine, true, bias.to(at::kBFloat16)),
                   want + bias.to(at::kBFloat16).to(at::kDouble), std::ldexp(1, -7), "bf16, bias");
      const Fp8Tensor a_t{a.bits.t().contiguous().t(), a.inverse_scale};
      expect_close(fp8_product(a_t, b, at::kFloat, engine, false), want, 1e-6, "of columns");
    }
    expect_close(fp8_product(a, b, at::kDouble, Fp8Engine::kEmulated, false), want, 1e-14, "fp64");
  }
  const Fp8Tensor a = fp8_quantize(wave({4, 6}, 0.3), kE4m3, number(1)),
                  b = fp8_quantize(wave({5, 6}, 1.3), kE4m3, number(1));
  const at::Tensor want = fp8_dequantize(a, at::kDouble).mm(fp8_dequantize(b, at::kDouble).t());
  expect_close(fp8_product(a, b, at::kFloat, Fp8Engine::kScaledMm, false), want, 1e-6,
               "sizes that are no multiples of 16");
  EXPECT_EQ(fp8_engine_of(at::kCPU), Fp8Engine::kEmulated);
}

void finish(Fp8State& state) {
  Fp8State* const states[] = {&state};
  finish_fp8_step(states, {});
}

float scale_of(Fp8Linear& linear, Fp8Operand operand) {
  return linear.named_buffers().at(1).tensor->select(0, static_cast<int64_t>(operand)).item<float>();
}

/// Steps whose inputs have these largest values; the scales that each step used.
std::vector<float> scales_over(const Fp8Options& options, const std::vector<float>& amaxes, Fp8Operand operand) {
  Fp8State state(options, 1, at::kCPU);
  const auto linear = state.add_linear();
  std::vector<float> scales;
  for (const float amax : amaxes) {
    const Fp8Tensor x = linear->quantize(at::tensor({amax / 2, -amax}), operand);
    scales.push_back(1 / x.inverse_scale.item<float>());
    linear->quantize(at::tensor({amax / 4, 0.0f}), operand);  // a second micro-batch: the larger one counts
    EXPECT_EQ(1 / linear->quantize(at::tensor({amax}), operand).inverse_scale.item<float>(), scales.back())
        << "scales change within a step";
    finish(state);
  }
  return scales;
}

TEST(Fp8Delayed, ScaleOfAStepComesOfStepsBefore) {
  const std::vector<float> amaxes{7, 14, 3.5, 1.75, 0.875, 0.875};
  using Scales = std::vector<float>;
  EXPECT_EQ(scales_over({.history_len = 1}, amaxes, Fp8Operand::kInput), (Scales{1, 64, 32, 128, 256, 512}));
  EXPECT_EQ(scales_over({.history_len = 3}, amaxes, Fp8Operand::kInput),
            (Scales{1, 64, 32, 128, 256, 512}));  // most recent: the others are only kept
  EXPECT_EQ(scales_over({.history_len = 3, .uses_max = true}, amaxes, Fp8Operand::kWeight),
            (Scales{1, 64, 32, 32, 32, 128}));
  EXPECT_EQ(scales_over({.history_len = 1, .uses_max = true}, amaxes, Fp8Operand::kWeight),
            (Scales{1, 64, 32, 128, 256, 512}));
  EXPECT_EQ(scales_over({.margin = 3}, amaxes, Fp8Operand::kInput), (Scales{1, 8, 4, 16, 32, 64}));
  EXPECT_EQ(scales_over({}, amaxes, Fp8Operand::kGradient), (Scales{1, 8192, 4096, 16384, 32768, 65536}));
  EXPECT_EQ(scales_over({.gradient_type = kE4m3}, amaxes, Fp8Operand::kGradient), (Scales{1, 64, 32, 128, 256, 512}));
}

TEST(Fp8Delayed, ZerosAndInfinitiesChangeNoScale) {
  using Scales = std::vector<float>;
  const float infinity = std::numeric_limits<float>::infinity();
  for (const bool uses_max : {false, true}) {
    EXPECT_EQ(scales_over({.uses_max = uses_max}, {7, 0, 14, 14}, Fp8Operand::kInput), (Scales{1, 64, 64, 32}));
    EXPECT_EQ(scales_over({.uses_max = uses_max}, {7, infinity, 14, 14}, Fp8Operand::kInput), (Scales{1, 64, 64, 32}));
  }
  EXPECT_EQ(scales_over({.history_len = 4, .uses_max = true}, {7, infinity, 3.5, 3.5}, Fp8Operand::kInput),
            (Scales{1, 64, 64, 64}))
      << "an infinity is not remembered";
}

TEST(Fp8Delayed, LayersAndOperandsKeepTheirOwn) {
  Fp8State state({.history_len = 2}, 2, at::kCPU);
  const auto first = state.add_linear(), second = state.add_linear();
  EXPECT_THROW(state.add_linear(), Error);
  first->quantize(at::full({2}, 7.0f), Fp8Operand::kInput);
  first->quantize(at::full({2}, 14.0f), Fp8Operand::kWeight);
  second->quantize(at::full({2}, 28.0f), Fp8Operand::kGradient);
  second->set_training(false);
  second->quantize(at::full({2}, 99.0f), Fp8Operand::kInput);  // evaluation leaves no trace
  finish(state);
  const auto buffers = first->named_buffers(), others = second->named_buffers();
  ASSERT_EQ(buffers.size(), 2u);
  EXPECT_EQ(buffers[0].name, "amax_history");
  EXPECT_TRUE(at::equal(*buffers[0].tensor, at::tensor({7.0f, 0.0f, 14.0f, 0.0f, 0.0f, 0.0f}).view({3, 2})));
  EXPECT_TRUE(at::equal(*buffers[1].tensor, at::tensor({64.0f, 32.0f, 1.0f})));
  EXPECT_TRUE(at::equal(*others[0].tensor, at::tensor({0.0f, 0.0f, 0.0f, 0.0f, 28.0f, 0.0f}).view({3, 2})));
  EXPECT_TRUE(at::equal(*others[1].tensor, at::tensor({1.0f, 1.0f, 2048.0f})));
}

TEST(Fp8Delayed, ContinuesFromItsBuffers) {
  const Fp8Options options{.history_len = 3, .uses_max = true};
  Fp8State whole(options, 1, at::kCPU), resumed(options, 1, at::kCPU);
  const auto a = whole.add_linear(), b = resumed.add_linear();
  const std::vector<float> amaxes{7, 14, 3.5, 1.75, 0.875};
  for (size_t step = 0; step < amaxes.size(); ++step) {
    a->quantize(at::full({1}, amaxes[step]), Fp8Operand::kInput);
    if (step > 1) b->quantize(at::full({1}, amaxes[step]), Fp8Operand::kInput);
    finish(whole);
    if (step > 1) finish(resumed);
    if (step == 0) continue;
    if (step == 1)
      for (size_t i = 0; i < 2; ++i) b->named_buffers()[i].tensor->copy_(*a->named_buffers()[i].tensor);
    EXPECT_EQ(scale_of(*a, Fp8Operand::kInput), scale_of(*b, Fp8Operand::kInput)) << step;
  }
  EXPECT_EQ(scale_of(*a, Fp8Operand::kInput), 128.0f);
}

TEST(Fp8Tensorwise, ScaleIsThatOfTheTensor) {
  Fp8State state({.recipe = Fp8Recipe::kTensorwise, .margin = 1}, 1, at::kCPU);
  const auto linear = state.add_linear();
  EXPECT_TRUE(linear->named_buffers().empty());
  for (const float amax : {7.0f, 14.0f})
    EXPECT_EQ(linear->quantize(at::tensor({-amax, 1.0f}), Fp8Operand::kInput).inverse_scale.item<float>(), amax / 224);
  EXPECT_EQ(linear->quantize(at::tensor({7.0f}), Fp8Operand::kGradient).inverse_scale.item<float>(), 7.0f / 28672);
  EXPECT_EQ(linear->quantize(at::zeros({2}), Fp8Operand::kInput).inverse_scale.item<float>(), 1.0f);
}

struct LinearCase {
  Fp8Recipe recipe;
  at::ScalarType gradient_type;
};

class Fp8Layer : public ::testing::TestWithParam<LinearCase> {};

/// What x stands for after rounding on `scale`, or on its own.
at::Tensor rounded(const at::Tensor& x, at::ScalarType type, const Fp8Options& options, double scale) {
  const double chosen =
      options.recipe == Fp8Recipe::kDelayed ? scale : fp8_max(type) / static_cast<float>(x.abs().max().item<double>());
  return fp8_dequantize(fp8_quantize(x, type, number(chosen)), at::kDouble);
}

TEST_P(Fp8Layer, ComputesThreeProductsOfRoundedOperands) {
  const auto [recipe, gradient_type] = GetParam();
  const Fp8Options options{.recipe = recipe, .gradient_type = gradient_type};
  Fp8State state(options, 2, at::kCPU);
  ColumnParallelLinear column(12, 10, {}, at::kDouble, true, 2, &state);
  RowParallelLinear row(12, 10, {}, at::kDouble, true, &state);
  const at::Tensor weight = wave({10, 12}, 1.1, 0.2), bias = wave({10}, 2.1);
  double scale_x = 1, scale_w = 1, scale_g = 1;
  for (int step = 0; step < 3; ++step) {
    at::Tensor x = wave({5, 3, 12}, 0.1 + step, 3.0 / (step + 1)).requires_grad_();
    const at::Tensor upstream = wave({5, 3, 10}, 4.1, std::pow(10.0, -step));
    const at::Tensor x8 = rounded(x.detach(), kE4m3, options, scale_x).view({15, 12}),
                     w8 = rounded(weight, kE4m3, options, scale_w),
                     g8 = rounded(upstream, gradient_type, options, scale_g).view({15, 10});
    const auto check = [&](Module& layer, const at::Tensor& y) {
      const auto parameters = layer.named_parameters();
      const auto got = torch::autograd::grad({y}, {x, *parameters[0].tensor, *parameters[1].tensor}, {upstream});
      expect_close(y.view({15, 10}), x8.mm(w8.t()).add(bias), 1e-13, "value");
      expect_close(got[0].view({15, 12}), g8.mm(w8), 1e-13, "gradient of x");
      expect_close(got[1].view({10, 12}), g8.t().mm(x8), 1e-13, "gradient of the weight");
      expect_close(got[2].view({10}), upstream.view({15, 10}).sum(0), 1e-13, "gradient of the bias");
      // Against what it stands for: every operand is within 2^-4 (E4M3) or 2^-3 (E5M2) of itself, and these errors
      // partly cancel.
      if (step > 0)
        expect_close(y.view({15, 10}), x.detach().view({15, 12}).mm(weight.t()).add(bias), 0.07,
                     "value, without 8 bits");
    };
    for (Module* layer : {static_cast<Module*>(&column), static_cast<Module*>(&row)}) {
      const c10::NoGradGuard no_grad;
      layer->named_parameters()[0].tensor->copy_(weight.view(layer->named_parameters()[0].tensor->sizes()));
      layer->named_parameters()[1].tensor->copy_(bias.view(layer->named_parameters()[1].tensor->sizes()));
    }
    check(column, column.forward(x));
    check(row, row.forward(x));
    finish(state);
    scale_x = 448 / static_cast<float>(x.abs().max().item<double>());
    scale_w = 448 / static_cast<float>(weight.abs().max().item<double>());
    scale_g = fp8_max(gradient_type) / static_cast<float>(upstream.abs().max().item<double>());
  }
}

INSTANTIATE_TEST_SUITE_P(Recipes, Fp8Layer,
                         ::testing::Values(LinearCase{Fp8Recipe::kDelayed, kE5m2},
                                           LinearCase{Fp8Recipe::kDelayed, kE4m3},
                                           LinearCase{Fp8Recipe::kTensorwise, kE5m2},
                                           LinearCase{Fp8Recipe::kTensorwise, kE4m3}));

TEST(Fp8LayerTypes, ResultsHaveTheTypeOfTheirOperand) {
  Fp8State state({.recipe = Fp8Recipe::kTensorwise}, 2, at::kCPU);
  RowParallelLinear narrow(32, 16, {}, at::kBFloat16, true, &state), wide(32, 16, {}, at::kFloat, true, &state);
  const at::Tensor weight = wave({16, 32}, 1.1), x = wave({32, 32}, 0.1);
  for (RowParallelLinear* layer : {&narrow, &wide}) {
    const c10::NoGradGuard no_grad;
    layer->named_parameters()[0].tensor->copy_(weight);
    layer->named_parameters()[1].tensor->zero_();
  }
  const at::Tensor want = x.mm(weight.t());
  const at::Tensor y = narrow.forward(x.to(at::kBFloat16).requires_grad_());
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  expect_close(y, want, 0.07, "bf16");
  // Autocast over fp32 parameters: activations are bf16, the gradient of the weight fp32.
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  const at::Tensor cast = wide.forward(x.to(at::kFloat).requires_grad_());
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_EQ(cast.scalar_type(), at::kBFloat16);
  expect_close(cast, want, 0.07, "autocast");
  const auto gradient =
      torch::autograd::grad({cast}, {*wide.named_parameters()[0].tensor}, {wave({32, 16}, 2.2).to(at::kBFloat16)})[0];
  EXPECT_EQ(gradient.scalar_type(), at::kFloat);
  const at::Tensor g8 = rounded(wave({32, 16}, 2.2).to(at::kBFloat16), kE5m2, state.options(), 0),
                   x8 = rounded(x.to(at::kBFloat16), kE4m3, state.options(), 0);
  expect_close(gradient, g8.t().mm(x8), 1e-5, "gradient under autocast");
}

TEST(Fp8LayerWeights, AChangedWeightIsRoundedAgain) {
  Fp8State state({.recipe = Fp8Recipe::kTensorwise}, 1, at::kCPU);
  RowParallelLinear layer(6, 4, {}, at::kDouble, false, &state);
  at::Tensor& weight = *layer.named_parameters()[0].tensor;
  const at::Tensor x = wave({3, 6}, 0.3);
  for (const double factor : {1.0, 2.0, -3.0}) {
    {
      const c10::NoGradGuard no_grad;
      weight.copy_(wave({4, 6}, 1.1, factor));
    }
    expect_close(layer.forward(x), x.mm(wave({4, 6}, 1.1, factor).t()), 0.07, "within a step");
  }
}

/// A recording only notes what is to be done: what it left in memory is nothing to go on with.
TEST(Fp8LayerWeights, WhatARecordingLeftIsRoundedAgain) {
  Fp8State state({.history_len = 1}, 1, at::kCPU);
  const auto layer = state.add_linear();
  const at::Tensor weight = wave({4, 6}, 1.1);
  {
    const RecordingScope recording;
    layer->weight(weight).bits.view(at::kByte).fill_(1);  // no kernel has run
    layer->transposed_weight(weight);
  }
  const Fp8Tensor& found = layer->weight(weight);
  EXPECT_TRUE(found.bits.view(at::kByte).equal(fp8_quantize(weight, kE4m3, number(1)).bits.view(at::kByte)));
  EXPECT_EQ(layer->transposed_weight(weight).bits.size(0), 6);
  EXPECT_TRUE(layer->transposed_weight(weight).bits.view(at::kByte).equal(found.transpose().bits.view(at::kByte)));
}

TEST(Fp8LayerWeights, EvaluationBetweenStepsChangesNothing) {
  const auto history_of = [](bool evaluates) {
    Fp8State state({.history_len = 2}, 1, at::kCPU);
    ColumnParallelLinear layer(6, 4, {}, at::kDouble, false, 1, &state);
    {
      const c10::NoGradGuard no_grad;
      layer.named_parameters()[0].tensor->copy_(wave({4, 6}, 1.1));
    }
    for (int step = 0; step < 2; ++step) {
      if (evaluates) {
        const c10::NoGradGuard no_grad;
        layer.set_training(false);
        layer.forward(wave({3, 6}, 0.3, 9));
        layer.set_training(true);
      }
      layer.forward(wave({3, 6}, 0.3 + step));
      finish(state);
    }
    return layer.named_buffers().at(0).tensor->clone();
  };
  const at::Tensor want = history_of(false);
  EXPECT_GT(want.select(0, 1).min().item<double>(), 0.0) << "the weight's";
  EXPECT_TRUE(at::equal(history_of(true), want));
}

}  // namespace
}  // namespace lockstep::nn
