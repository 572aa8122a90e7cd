// Attention that drops probabilities on a device: a fused kernel draws from the device's generator, which the key
// seeds. Dropout elsewhere, for which this device has no kernel, draws what the CPU draws.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "nn/attention.h"
#include "nn/dropout.h"
#include "nn/module.h"
#include "nn/recompute.h"
#include "support/accelerator/runtime.h"

namespace lockstep::tests {
namespace {

const at::Device kDevice{accelerator::kDeviceType, 0};
constexpr int64_t kSamples = 2, kHeads = 3, kTokens = 8, kWidth = 4;

/// Queries, keys and values of the samples, drawn on the CPU.
at::Tensor drawn_qkv(at::Device device) {
  return at::arange(3 * kSamples * kHeads * kTokens * kWidth)
      .mul(37)
      .remainder(23)
      .div(11.0)
      .view({3, kSamples, kHeads, kTokens, kWidth})
      .to(device);
}

at::Tensor attended(const at::Tensor& qkv, const nn::Dropout& dropout) {
  return nn::attention(qkv[0], qkv[1], qkv[2], {}, /*is_causal=*/true, dropout);
}

TEST(FusedDropout, IsAFunctionOfTheKey) {
  const at::Tensor qkv = drawn_qkv(kDevice);
  const at::Tensor first = attended(qkv, {.probability = 0.3, .key = 7}).cpu();
  EXPECT_TRUE(at::equal(attended(qkv, {.probability = 0.3, .key = 7}).cpu(), first));
  EXPECT_FALSE(at::equal(attended(qkv, {.probability = 0.3, .key = 8}).cpu(), first));
  EXPECT_TRUE(at::allclose(attended(qkv, {}).cpu(), attended(drawn_qkv(at::kCPU), {}), 1e-5, 1e-6));
}

TEST(FusedDropout, IsTheKernelsOwn) {
  const at::Tensor qkv = drawn_qkv(kDevice);
  nn::seed_device_generator(kDevice, 7);
  const at::Tensor want = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, 0.3, /*is_causal=*/true).cpu();
  EXPECT_TRUE(at::equal(attended(qkv, {.probability = 0.3, .key = 7}).cpu(), want));
  EXPECT_FALSE(at::equal(attended(qkv, {}).cpu(), want));
}

TEST(FusedDropout, DropsTheShareAndKeepsTheMean) {
  // Equal scores and values of 1: row i gives what is kept of i + 1 probabilities, over the share that is kept.
  const at::Tensor zeros = at::zeros({16, 8, 32, kWidth}, kDevice), ones = at::ones({16, 8, 32, kWidth}, kDevice);
  const at::Tensor y = nn::attention(zeros, zeros, ones, {}, /*is_causal=*/true, {.probability = 0.25, .key = 3}).cpu();
  EXPECT_NEAR(y.mean().item<double>(), 1.0, 0.02);
  const at::Tensor of_first = y.select(2, 0).select(2, 0);  // one probability: 0 or 1 / 0.75
  EXPECT_TRUE(of_first.eq(0).logical_or(of_first.sub(1 / 0.75).abs().lt(1e-6)).all().item<bool>());
  EXPECT_NEAR(of_first.eq(0).to(at::kDouble).mean().item<double>(), 0.25, 0.12);
}

TEST(FusedDropout, NumberedRowsDropWhatTheCpuDrops) {
  const at::Tensor rows = at::arange(kSamples * kHeads * kTokens).add(100);
  const at::Tensor want = attended(drawn_qkv(at::kCPU), {.probability = 0.3, .key = 7, .rows = rows});
  const at::Tensor got = attended(drawn_qkv(kDevice), {.probability = 0.3, .key = 7, .rows = rows.to(kDevice)});
  EXPECT_TRUE(at::allclose(got.cpu(), want, 1e-5, 1e-6));
}

TEST(FusedDropout, RecomputationDrawsTheSameAgain) {
  const auto gradient = [](bool is_recomputed) {
    at::Tensor qkv = drawn_qkv(kDevice).requires_grad_(true);
    nn::Module no_parameters;
    const auto attend = [](const at::Tensor& x) { return attended(x, {.probability = 0.3, .key = 7}); };
    const at::Tensor y = is_recomputed ? nn::recomputed(no_parameters, qkv, attend) : attend(qkv);
    attended(drawn_qkv(kDevice), {.probability = 0.5, .key = 1});  // a draw of another layer between the two
    y.mul(y).sum().backward();
    return qkv.grad().cpu();
  };
  EXPECT_TRUE(at::equal(gradient(true), gradient(false)));
}

TEST(DropoutByOperators, HasTheBitsOfTheCpu) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const bool has_rows : {true, false}) {
      nn::Dropout dropped{.probability = 0.3, .key = 7};
      if (has_rows) dropped.rows = at::arange(12).mul(5);
      const at::Tensor values = at::arange(12 * 40).sub(200).div(7.0).view({12, 40}).to(type);
      at::Tensor of_cpu = values.clone().requires_grad_(true), of_device = values.to(kDevice).requires_grad_(true);
      const at::Tensor want = nn::dropout(of_cpu, dropped);
      if (has_rows) dropped.rows = dropped.rows.to(kDevice);
      const at::Tensor got = nn::dropout(of_device, dropped);
      EXPECT_TRUE(at::equal(got.cpu(), want)) << type << has_rows;
      want.backward(values);
      got.backward(values.to(kDevice));
      EXPECT_TRUE(at::equal(of_device.grad().cpu(), of_cpu.grad())) << type << has_rows;
      EXPECT_GT(want.eq(0).sum().item<int64_t>(), 50);
    }
}

}  // namespace
}  // namespace lockstep::tests
