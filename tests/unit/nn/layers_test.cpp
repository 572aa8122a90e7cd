#include "nn/layers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/rng.h"
#include "nn/attention.h"
#include "nn/init.h"
#include "nn/patch_embedding.h"
#include "support/tensor_golden.h"

namespace lockstep::nn {
namespace {

using ::lockstep::tests::expect_close;

at::Tensor noise(at::IntArrayRef shape, uint64_t seed) {
  at::Tensor tensor = at::empty(shape);
  const config::ParamSpec law{
      .name = "noise", .shape = shape.vec(), .init = {config::InitLaw::Kind::kNormal, 0.0, 1.0}};
  initialize(tensor, law, seed);
  return tensor;
}

TEST(LayerNorm, LowPrecisionInputWithFp32Weights) {
  LayerNorm norm(32, {});
  norm.named_parameters()[0].tensor->detach().copy_(noise({32}, 1));
  norm.named_parameters()[1].tensor->detach().copy_(noise({32}, 2));
  const at::Tensor x = noise({5, 32}, 3).to(at::kBFloat16);
  const at::Tensor y = norm.forward(x);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  expect_close(y.to(at::kFloat), norm.forward(x.to(at::kFloat)), 1.0 / 256, "rounding of the result to 8 bits");
}

TEST(Activate, QuickGeluAndItsGradient) {
  const at::Tensor x = (4 * noise({200}, 4)).set_requires_grad(true), same = x.detach().clone().set_requires_grad(true);
  const at::Tensor y = activate(x, Activation::kQuickGelu), plain = same * at::sigmoid(1.702 * same);
  expect_close(y, plain, 1e-6, "value");
  y.square().sum().backward();
  plain.square().sum().backward();
  expect_close(x.grad(), same.grad(), 1e-6, "gradient");
}

TEST(Activate, GeluIsTheExactOne) {
  const at::Tensor x = noise({200}, 5).to(at::kDouble);
  expect_close(activate(x, Activation::kGelu), 0.5 * x * (1 + at::erf(x / std::sqrt(2.0))), 1e-12, "value");
}

struct AttentionCase {
  int64_t length;
  bool is_causal;
};

class AttentionForms : public ::testing::TestWithParam<AttentionCase> {};

/// Written out in float64.
at::Tensor reference_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool is_causal) {
  at::Tensor scores = at::matmul(q, k.transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(-1)));
  if (is_causal) scores = scores + causal_mask(k.size(2), scores.options());
  return at::matmul(at::softmax(scores, -1), v);
}

TEST_P(AttentionForms, EqualTheFormulaWithGradients) {
  const auto [length, is_causal] = GetParam();
  std::vector<at::Tensor> inputs, doubles;
  for (uint64_t i = 0; i < 3; ++i) {
    inputs.push_back(noise({2, 3, length, 8}, 10 + i).set_requires_grad(true));
    doubles.push_back(inputs.back().detach().to(at::kDouble).set_requires_grad(true));
  }
  const at::Tensor y = attention(inputs[0], inputs[1], inputs[2], {}, is_causal);
  const at::Tensor expected = reference_attention(doubles[0], doubles[1], doubles[2], is_causal);
  expect_close(y, expected, 2e-6, "value");
  y.square().sum().backward();
  expected.square().sum().backward();
  for (size_t i = 0; i < 3; ++i)
    expect_close(inputs[i].grad(), doubles[i].grad(), 4e-6, "gradient " + std::to_string(i));
}

// Both sides of the length at which the form changes.
INSTANTIATE_TEST_SUITE_P(Lengths, AttentionForms,
                         ::testing::Values(AttentionCase{2, true}, AttentionCase{17, false}, AttentionCase{17, true},
                                           AttentionCase{300, false}, AttentionCase{300, true}));

TEST(MultiHeadAttention, OneQueryEqualsItsRow) {
  MultiHeadAttention attention_layer(24, 3, {});
  for (auto& entry : attention_layer.named_parameters())
    entry.tensor->detach().copy_(noise(entry.tensor->sizes(), 7) * 0.3);
  const at::Tensor x = noise({4, 9, 24}, 8), position = at::tensor(std::vector<int64_t>{0, 3, 8, 5});
  const at::Tensor index = position.view({4, 1, 1}).expand({4, 1, 24});
  for (const bool is_causal : {false, true}) {
    const at::Tensor row = attention_layer.forward(x, is_causal).gather(1, index);
    expect_close(attention_layer.forward_one_query(x.gather(1, index), x, position, is_causal), row, 1e-6, "row");
  }
}

TEST(PatchEmbedding, EqualsTheConvolution) {
  PatchEmbedding embedding(10, 4, {});
  at::Tensor& weight = *embedding.named_parameters()[0].tensor;
  weight.detach().copy_(noise({10, 3, 4, 4}, 9));
  const at::Tensor image = noise({2, 3, 14, 14}, 10);  // 3 x 3 patches, two pixels left over
  const at::Tensor expected = at::conv2d(image, weight, {}, 4).flatten(2).transpose(1, 2);
  expect_close(embedding.forward(image, {}), expected, 2e-6, "all");
  expect_close(embedding.forward(image.contiguous(at::MemoryFormat::ChannelsLast), {}), expected, 2e-6,
               "channels last");
  const at::Tensor kept = at::tensor(std::vector<int64_t>{0, 4, 8, 1, 2, 7}).view({2, 3});
  expect_close(embedding.forward(image, kept), expected.gather(1, kept.unsqueeze(2).expand({2, 3, 10})), 2e-6, "kept");
}

}  // namespace
}  // namespace lockstep::nn
