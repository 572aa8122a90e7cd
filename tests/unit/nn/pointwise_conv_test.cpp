#include "nn/pointwise_conv.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>
#include <vector>

#include "nn/conv.h"
#include "nn/gradient_sink.h"
#include "support/tensor_golden.h"

namespace lockstep::nn {
namespace {

using tests::relative_difference;

struct PointwiseSizes {
  int64_t pictures, inputs, outputs, rows, columns, stride;
};

class PointwiseConv : public testing::TestWithParam<PointwiseSizes> {
 protected:
  void SetUp() override { at::manual_seed(11); }
};

/// Result, gradient of the pictures and of the filters.
struct PointwiseResults {
  at::Tensor y, dx, dweight;
};
template <typename Convolve>
PointwiseResults pointwise_results(const at::Tensor& pictures, const at::Tensor& filters, const Convolve& convolve) {
  const at::Tensor x = pictures.detach().requires_grad_(), weight = filters.detach().requires_grad_();
  const at::Tensor y = convolve(x, weight);
  y.backward(at::sin(at::arange(y.numel(), at::kDouble)).view(y.sizes()).to(y.scalar_type()));
  return {y.detach(), x.grad(), weight.grad()};
}

PointwiseResults exact_results(const at::Tensor& x, const at::Tensor& weight, int64_t stride) {
  return pointwise_results(x.to(at::kDouble), weight.to(at::kDouble), [&](const at::Tensor& a, const at::Tensor& b) {
    return at::conv2d(a, b, {}, {stride, stride});
  });
}

TEST_P(PointwiseConv, EqualsThePlainConvolutionAndItsGradients) {
  const PointwiseSizes sizes = GetParam();
  const at::Tensor x =
      at::randn({sizes.pictures, sizes.inputs, sizes.rows, sizes.columns}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor weight = at::randn({sizes.outputs, sizes.inputs, 1, 1});
  ASSERT_TRUE(has_pointwise_conv(x, weight));
  const auto convolve = [&](const at::Tensor& a, const at::Tensor& b) { return pointwise_conv(a, b, sizes.stride); };
  const PointwiseResults expected = exact_results(x, weight, sizes.stride);
  const PointwiseResults seen = pointwise_results(x, weight, convolve);
  EXPECT_LT(relative_difference(seen.y, expected.y), 2e-6);
  EXPECT_LT(relative_difference(seen.dx, expected.dx), 2e-6);
  EXPECT_LT(relative_difference(seen.dweight, expected.dweight), 2e-6);
  EXPECT_TRUE(seen.dx.is_contiguous(at::MemoryFormat::ChannelsLast));

  at::autocast::set_autocast_enabled(at::kCPU, true);
  const PointwiseResults rounded = pointwise_results(x, weight, convolve);
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_EQ(rounded.y.scalar_type(), at::kBFloat16);
  EXPECT_EQ(rounded.dweight.scalar_type(), at::kFloat);
  EXPECT_LT(relative_difference(rounded.y, expected.y), 1e-2);
  EXPECT_LT(relative_difference(rounded.dx, expected.dx), 1e-2);
  EXPECT_LT(relative_difference(rounded.dweight, expected.dweight), 1e-2);
}

INSTANTIATE_TEST_SUITE_P(Sizes, PointwiseConv,
                         testing::Values(PointwiseSizes{2, 16, 32, 8, 8, 1}, PointwiseSizes{3, 32, 8, 7, 9, 2},
                                         PointwiseSizes{2, 8, 24, 8, 6, 2}, PointwiseSizes{5, 16, 16, 10, 7, 3},
                                         PointwiseSizes{4, 8, 8, 1, 1, 1}));

/// The gradient of pictures that have two uses; `other` is the second, of what the convolution hands on.
template <typename Fork, typename Other>
at::Tensor gradient_of_two_uses(const at::Tensor& pictures, const Fork& fork, const Other& other) {
  const at::Tensor x = pictures.detach().requires_grad_();
  const ConvAndInput both = fork(x);
  const at::Tensor sum = at::sin(both.y_BOYX.to(at::kDouble)).sum() + other(both.x_BCYX);
  sum.backward();
  return x.grad();
}

TEST_P(PointwiseConv, AddsToTheGradientOfItsInputsOtherUses) {
  const PointwiseSizes sizes = GetParam();
  const at::Tensor weight = at::randn({sizes.outputs, sizes.inputs, 1, 1}) / 4;
  const at::Tensor x =
      at::randn({sizes.pictures, sizes.inputs, sizes.rows, sizes.columns}).contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor held;  // a gradient that somebody keeps must stay as it was
  const auto cosines = [](const at::Tensor& a) { return at::cos(a.to(at::kDouble)).sum(); };
  const auto keeps_gradient = [&](const at::Tensor& a) {
    a.register_hook([&](const at::Tensor& gradient) { held = gradient; });
    return at::cos(a.to(at::kDouble)).sum();
  };
  const auto has_expanded_gradient = [](const at::Tensor& a) { return a.sum().to(at::kDouble); };
  const auto is_channels_first = [](const at::Tensor& a) { return at::cos(a.contiguous().to(at::kDouble)).sum(); };
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor pictures = x.to(type), filters = weight.to(type);
    const double bound = type == at::kFloat ? 2e-6 : 2e-2;
    const auto fork = [&](const at::Tensor& a) { return pointwise_conv_and_input(a, filters, sizes.stride); };
    const auto plain = [&](const at::Tensor& a) {
      return ConvAndInput{at::conv2d(a, filters.to(at::kDouble), {}, {sizes.stride, sizes.stride}), a};
    };
    const at::Tensor exact = pictures.to(at::kDouble), expected = gradient_of_two_uses(exact, plain, cosines),
                     of_sum = gradient_of_two_uses(exact, plain, has_expanded_gradient);
    EXPECT_LT(relative_difference(gradient_of_two_uses(pictures, fork, cosines), expected), bound);
    EXPECT_LT(relative_difference(gradient_of_two_uses(pictures, fork, is_channels_first), expected), bound);
    EXPECT_LT(relative_difference(gradient_of_two_uses(pictures, fork, has_expanded_gradient), of_sum), bound);
    EXPECT_LT(relative_difference(gradient_of_two_uses(pictures, fork, keeps_gradient), expected), bound);
    EXPECT_LT(relative_difference(held, -at::sin(exact)), bound);
  }
}

TEST_F(PointwiseConv, HandsOnAnInputWithoutGradientAsItIs) {
  const at::Tensor x = at::randn({2, 8, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
  const ConvAndInput both = pointwise_conv_and_input(x, at::randn({8, 8, 1, 1}).requires_grad_(), 1);
  EXPECT_TRUE(both.y_BOYX.requires_grad());
  EXPECT_FALSE(both.x_BCYX.requires_grad()) << "other uses would compute a gradient that nobody wants";
}

struct SumOfFilters final : torch::autograd::PostAccumulateGradHook, GradientSink {
  explicit SumOfFilters(at::Tensor into) : sum(std::move(into)) {}
  void operator()(const torch::autograd::Variable&) override {}
  Sum begin(const at::Tensor&) override { return {sum, num_added == 0}; }
  void added() override { ++num_added; }
  void is_complete() override {}
  at::Tensor sum;
  int num_added = 0;
};

TEST_F(PointwiseConv, AddsTheFiltersGradientWhereItsSinkWantsIt) {
  const at::Tensor weight = at::randn({8, 16, 1, 1}).requires_grad_(), sum = at::full({8, 16, 1, 1}, 7.0);
  torch::autograd::impl::set_post_acc_grad_hooks(weight, std::make_unique<SumOfFilters>(sum));
  at::Tensor expected = at::zeros_like(sum);
  for (int micro = 0; micro < 3; ++micro) {
    const at::Tensor x = at::randn({2, 16, 6, 6}).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor plain = weight.detach().clone().requires_grad_();
    pointwise_conv(x, weight, 2).sum().backward();
    at::conv2d(x, plain, {}, {2, 2}).sum().backward();
    expected += plain.grad();
    EXPECT_LT(relative_difference(sum, expected), 2e-6) << "micro-batch " << micro;
  }
  EXPECT_FALSE(weight.grad().defined()) << "autograd keeps one of its own";
  torch::autograd::impl::set_post_acc_grad_hooks(weight, nullptr);
}

TEST_F(PointwiseConv, IsTakenOnlyWhereItHolds) {
  const at::Tensor x = at::randn({2, 8, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast),
                   weight = at::randn({8, 8, 1, 1});
  EXPECT_TRUE(has_pointwise_conv(x, weight));
  EXPECT_TRUE(has_pointwise_conv(x.to(at::kBFloat16), weight));
  EXPECT_FALSE(has_pointwise_conv(x.contiguous(), weight)) << "channels first";
  EXPECT_FALSE(has_pointwise_conv(x.to(at::kDouble), weight));
  EXPECT_FALSE(has_pointwise_conv(x, at::randn({8, 8, 3, 3})));
  const c10::NoGradGuard no_grad;
  EXPECT_FALSE(has_pointwise_conv(x, weight)) << "no gradient is wanted";
}

}  // namespace
}  // namespace lockstep::nn
