#include "nn/fused_batch_norm.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "nn/conv.h"

namespace lockstep::nn {
namespace {

constexpr double kEpsilonOfTest = 1e-5;

struct NormCase {
  at::Tensor x, weight, bias, residual;
};

NormCase make_case(at::IntArrayRef sizes, at::ScalarType type, bool has_residual) {
  const auto channels = sizes[1];
  const auto leaf = [&](const at::Tensor& values) {
    return values.to(type).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  };
  NormCase one{.x = leaf(at::randn(sizes) * 3 + at::randn({1, channels, 1, 1}) * 20),
               .weight = (at::randn({channels}) + 1).requires_grad_(),
               .bias = at::randn({channels}).requires_grad_(),
               .residual = {}};
  if (has_residual) one.residual = leaf(at::randn(sizes));
  return one;
}

/// The operators that the fused one stands for, in fp64.
at::Tensor plain(const NormCase& one, bool has_relu, at::Tensor& mean, at::Tensor& var) {
  at::Tensor y = at::batch_norm(one.x.to(at::kDouble), one.weight.to(at::kDouble), one.bias.to(at::kDouble), mean, var,
                                true, 0.1, kEpsilonOfTest, true);
  if (one.residual.defined()) y = y + one.residual.to(at::kDouble);
  return has_relu ? y.relu() : y;
}

std::vector<at::Tensor> leaves(const NormCase& one) {
  std::vector<at::Tensor> all{one.x, one.weight, one.bias};
  if (one.residual.defined()) all.push_back(one.residual);
  return all;
}

std::vector<at::Tensor> taken_gradients(const NormCase& one) {
  std::vector<at::Tensor> all;
  for (at::Tensor leaf : leaves(one)) {
    all.push_back(leaf.grad().clone());
    leaf.mutable_grad() = at::Tensor();
  }
  return all;
}

double apart(const at::Tensor& seen, const at::Tensor& expected) {
  const double largest = expected.abs().max().item<double>();
  EXPECT_GT(largest, 0);
  return (seen.to(at::kDouble) - expected).abs().max().item<double>() / largest;
}

void compare_with_plain(at::IntArrayRef sizes, at::ScalarType type, bool has_residual, bool has_relu) {
  const NormCase one = make_case(sizes, type, has_residual);
  // bf16: results are rounded to 8 bits, and a mask differs where rounding of the plain sum would be 0.
  const double tolerance = type == at::kFloat ? 2e-6 : 8e-3;
  const auto channels = sizes[1];
  at::Tensor mean = at::zeros({channels}), var = at::ones({channels}), mean64 = at::zeros({channels}, at::kDouble),
             var64 = at::ones({channels}, at::kDouble);
  ASSERT_TRUE(has_fused_batch_norm(one.x, one.weight));
  const at::Tensor y = fused_batch_norm(one.x, one.weight, one.bias, one.residual, has_relu,
                                        {.mean_C = mean, .var_C = var, .momentum = 0.1}, kEpsilonOfTest);
  const at::Tensor expected = plain(one, has_relu, mean64, var64);
  EXPECT_EQ(y.scalar_type(), type);
  EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_LT(apart(y, expected), tolerance);
  EXPECT_LT(apart(mean, mean64), 2e-6);
  EXPECT_LT(apart(var, var64), 2e-6);
  const at::Tensor dy = at::randn(sizes).to(type);  // not channels-last
  y.backward(dy);
  const auto seen = taken_gradients(one);
  // The mask is that of the result as it was stored.
  at::Tensor y64 = plain(one, false, mean64, var64);
  y64.backward(has_relu ? dy.to(at::kDouble) * (y.detach() > 0) : dy.to(at::kDouble));
  const auto wanted = taken_gradients(one);
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_LT(apart(seen[i], wanted[i].to(at::kDouble)), tolerance) << i;
}

TEST(FusedBatchNorm, EqualsTheOperatorsThatItStandsFor) {
  at::manual_seed(1);
  for (const bool has_residual : {false, true}) {
    for (const bool has_relu : {false, true}) {
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        SCOPED_TRACE(fmt::format("residual={}, relu={}, bf16={}", has_residual, has_relu, type == at::kBFloat16));
        compare_with_plain({3, 32, 7, 5}, type, has_residual, has_relu);
        compare_with_plain({16, 64, 28, 28}, type, has_residual, has_relu);  // several threads, many parts
        compare_with_plain({8, 2048, 2, 2}, type, has_residual, has_relu);
      }
    }
  }
}

TEST(FusedBatchNorm, TheLayerTakesItOrWhatItStandsFor) {
  at::manual_seed(2);
  const at::TensorOptions options;
  BatchNorm2d fused(32, options), unfused(32, options);
  for (BatchNorm2d* layer : {&fused, &unfused}) {
    layer->set_training(true);
    for (const NamedTensor& parameter : layer->named_parameters())
      parameter.tensor->detach().fill_(parameter.name == "weight" ? 1.5 : 0.25);
    for (const NamedTensor& buffer : layer->named_buffers()) buffer.tensor->fill_(buffer.name == "running_var" ? 1 : 0);
  }
  const at::Tensor x = at::randn({4, 32, 6, 6}), residual = at::randn({4, 32, 6, 6});
  const auto last = at::MemoryFormat::ChannelsLast;
  const auto apart_of = [](const at::Tensor& a, const at::Tensor& b) {
    return apart(a.detach(), b.detach().to(at::kDouble));
  };
  ASSERT_FALSE(has_fused_batch_norm(x, at::ones({32})));  // channels first
  EXPECT_LT(apart_of(fused.forward(x.contiguous(last)), unfused.forward(x)), 1e-5);
  EXPECT_LT(apart_of(fused.forward_relu(x.contiguous(last)), unfused.forward_relu(x)), 1e-5);
  EXPECT_LT(apart_of(fused.forward_add_relu(x.contiguous(last), residual.contiguous(last)),
                     unfused.forward_add_relu(x, residual)),
            1e-5);
  const auto seen = fused.named_buffers(), expected = unfused.named_buffers();
  ASSERT_EQ(seen.size(), 3u);
  for (size_t i = 0; i < seen.size(); ++i)
    EXPECT_LT(apart_of(*seen[i].tensor, *expected[i].tensor), 1e-5) << seen[i].name;
}

TEST(FusedBatchNorm, IsForChannelsLastOnTheCpu) {
  const at::Tensor weight = at::ones({32}), last = at::zeros({2, 32, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(has_fused_batch_norm(last, weight));
  EXPECT_TRUE(has_fused_batch_norm(last.to(at::kBFloat16), weight));
  EXPECT_FALSE(has_fused_batch_norm(last.to(at::kHalf), weight));
  EXPECT_FALSE(has_fused_batch_norm(last, weight.to(at::kBFloat16)));
  EXPECT_FALSE(has_fused_batch_norm(at::zeros({2, 24, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast), weight));
}

}  // namespace
}  // namespace lockstep::nn
