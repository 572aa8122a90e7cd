// Layers of language models against plain formulas, on one rank.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "nn/attention.h"
#include "nn/gpt_activation.h"
#include "nn/norm.h"
#include "nn/rotary.h"
#include "nn/vocab_cross_entropy.h"
#include "support/tensor_golden.h"
#include "support/wave.h"

namespace lockstep::nn {
namespace {

using tests::expect_close;

/// Sines of rising arguments: no two alike, no draws.
using tests::wave;

std::vector<at::Tensor> gradients(const at::Tensor& y, const std::vector<at::Tensor>& inputs) {
  return torch::autograd::grad({y}, inputs, {wave(y.sizes(), 3.3, 1.0, y.scalar_type())});
}

class Norms : public ::testing::TestWithParam<config::GptNorm> {};

TEST_P(Norms, FollowTheirFormula) {
  const at::TensorOptions options(at::kDouble);
  Norm norm(GetParam(), 6, 1e-3, options);
  double phase = 0.4;
  {
    const c10::NoGradGuard no_grad;
    for (const auto& [name, tensor] : norm.named_parameters()) tensor->copy_(wave({6}, phase += 1));
  }
  const auto parameters = norm.named_parameters();
  const bool is_rms = GetParam() == config::GptNorm::kRmsNorm;
  ASSERT_EQ(parameters.size(), is_rms ? 1u : 2u);
  at::Tensor x = wave({4, 3, 6}, 0.1, 2.0).requires_grad_();
  const at::Tensor gain =
      GetParam() == config::GptNorm::kLayerNorm1p ? parameters[0].tensor->add(1) : *parameters[0].tensor;
  const at::Tensor centred = is_rms ? x : x - x.mean(-1, true);
  at::Tensor want = centred / (centred.square().mean(-1, true) + 1e-3).sqrt() * gain;
  std::vector<at::Tensor> inputs{x, *parameters[0].tensor};
  if (!is_rms) {
    want = want + *parameters[1].tensor;
    inputs.push_back(*parameters[1].tensor);
  }
  const at::Tensor got = norm.forward(x);
  expect_close(got, want, 1e-12, "value");
  const auto got_gradients = gradients(got, inputs), want_gradients = gradients(want, inputs);
  for (size_t i = 0; i < inputs.size(); ++i)
    expect_close(got_gradients[i], want_gradients[i], 1e-11, "gradient " + std::to_string(i));
}

INSTANTIATE_TEST_SUITE_P(All, Norms,
                         ::testing::Values(config::GptNorm::kLayerNorm, config::GptNorm::kLayerNorm1p,
                                           config::GptNorm::kRmsNorm));

TEST(GptActivation, FollowsTheFormulas) {
  at::Tensor x = wave({5, 8}, 0.2, 3.0).requires_grad_();
  const auto check = [&](config::GptActivation kind, const at::Tensor& want, const std::string& what) {
    const at::Tensor got = activate(x, kind);
    expect_close(got, want, 1e-12, what);
    expect_close(gradients(got, {x})[0], gradients(want, {x})[0], 1e-11, what + ", gradient");
  };
  check(config::GptActivation::kGelu, x * 0.5 * (1 + (x / std::sqrt(2.0)).erf()), "gelu");
  check(config::GptActivation::kGeluTanh, x * 0.5 * (1 + (std::sqrt(2 / M_PI) * (x + 0.044715 * x.pow(3))).tanh()),
        "gelu-tanh");
  check(config::GptActivation::kSquaredRelu, x.clamp_min(0) * x.clamp_min(0), "squared relu");
  const at::Tensor gate = x.narrow(1, 0, 4), up = x.narrow(1, 4, 4);
  check(config::GptActivation::kSwiglu, gate * gate.sigmoid() * up, "swiglu");
}

TEST(Rotary, TurnsPairsByPositionTimesFrequency) {
  const auto frequencies = rotary_frequencies(4, 10000.0, std::nullopt);
  ASSERT_EQ(frequencies.size(), 2u);
  EXPECT_DOUBLE_EQ(frequencies[1], 0.01);
  const at::Tensor position = at::tensor({0, 3, 7}, at::kLong).unsqueeze(1);
  const at::Tensor x = wave({3, 2, 1, 2, 6}, 0.3);
  const at::Tensor y = rotate(x, make_rotary_table(frequencies, position));
  EXPECT_TRUE(at::equal(y[0], x[0])) << "position 0 stays";
  EXPECT_TRUE(at::equal(y.narrow(-1, 4, 2), x.narrow(-1, 4, 2))) << "what is not turned stays";
  const double angle = 7 * 0.01;  // the second pair: elements 1 and 3
  const at::Tensor in = x[2][1][0][1], out = y[2][1][0][1];
  const double a = in[1].item<double>(), b = in[3].item<double>();
  EXPECT_NEAR(out[1].item<double>(), a * std::cos(angle) - b * std::sin(angle), 1e-12);
  EXPECT_NEAR(out[3].item<double>(), b * std::cos(angle) + a * std::sin(angle), 1e-12);
}

/// What a table costs on a device is paid once.
TEST(Rotary, CachedTableIsThatOfItsPositions) {
  const auto frequencies = rotary_frequencies(6, 10000.0, std::nullopt);
  RotaryCache cache(frequencies);
  const RotaryTable want = make_rotary_table(frequencies, at::arange(5).unsqueeze(1));
  for (const at::ScalarType type : {at::kDouble, at::kBFloat16}) {
    const RotaryTable first = cache.table(5, at::kCPU, type);
    EXPECT_TRUE(at::equal(first.cosine, want.cosine.to(type)) && at::equal(first.sine, want.sine.to(type)));
    EXPECT_TRUE(cache.table(5, at::kCPU, type).cosine.is_same(first.cosine)) << "made again";
  }
  EXPECT_EQ(cache.table(7, at::kCPU, at::kFloat).sine.size(0), 7);
  const at::Tensor reset = at::tensor({0, 1, 0, 1, 2}, at::kLong).unsqueeze(1);
  EXPECT_TRUE(at::equal(cache.table(reset).sine, make_rotary_table(frequencies, reset).sine));
}

TEST(Rotary, ScoresDependOnDistanceAlone) {
  const auto frequencies = rotary_frequencies(8, 100.0, config::RotaryScaling{4, 1, 4, 64});
  const at::Tensor q = wave({1, 1, 1, 1, 8}, 0.1).expand({2, 1, 1, 1, 8}),
                   k = wave({1, 1, 1, 1, 8}, 2.1).expand({2, 1, 1, 1, 8});
  const at::Tensor near = at::tensor({5, 105}, at::kLong).unsqueeze(1),
                   far = at::tensor({9, 109}, at::kLong).unsqueeze(1);
  const at::Tensor score =
      (rotate(q, make_rotary_table(frequencies, near)) * rotate(k, make_rotary_table(frequencies, far)))
          .sum(-1)
          .flatten();
  EXPECT_NEAR(score[0].item<double>(), score[1].item<double>(), 1e-10);
  EXPECT_GT(std::abs(score[0].item<double>() - (q * k).sum(-1).flatten()[0].item<double>()), 1e-3);
}

TEST(Rotary, StretchesLongWavesOnly) {
  const config::RotaryScaling scaling{8, 1, 4, 8192};
  const auto plain = rotary_frequencies(128, 500000.0, std::nullopt),
             stretched = rotary_frequencies(128, 500000.0, scaling);
  EXPECT_EQ(stretched.front(), plain.front());
  EXPECT_DOUBLE_EQ(stretched.back(), plain.back() / 8);
  int between = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_LE(stretched[i], plain[i]);
    EXPECT_GE(stretched[i], plain[i] / 8 * (1 - 1e-12));
    between += stretched[i] < plain[i] && stretched[i] > plain[i] / 8 * (1 + 1e-12);
  }
  EXPECT_GT(between, 2);
}

/// softmax(q k^t / sqrt K) v with keys repeated for each query head.
at::Tensor repeated_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask) {
  const int64_t times = q.size(1) / k.size(1);
  const at::Tensor keys = k.repeat_interleave(times, 1), values = v.repeat_interleave(times, 1);
  return at::softmax(q.matmul(keys.transpose(2, 3)) / std::sqrt(static_cast<double>(q.size(3))) + mask, -1)
      .matmul(values);
}

TEST(GroupedAttention, EqualsRepeatedKeysAtEveryLength) {
  for (const int64_t length : {5, 300})  // below and above the length where the fused kernel takes over
    for (const bool is_causal : {true, false}) {
      at::Tensor q = wave({2, 6, length, 4}, 0.3, 1.0, at::kFloat).requires_grad_();
      at::Tensor k = wave({2, 2, length, 4}, 1.3, 1.0, at::kFloat).requires_grad_(),
                 v = wave({2, 2, length, 4}, 2.3, 1.0, at::kFloat).requires_grad_();
      const at::Tensor mask = is_causal ? causal_mask(length, q.options().requires_grad(false))
                                        : wave({2, 1, length, length}, 0.9, 1.0, at::kFloat);
      const at::Tensor got = attention(q, k, v, is_causal ? at::Tensor() : mask, is_causal),
                       want = repeated_attention(q, k, v, mask);
      const std::string what = fmt::format("length {} causal {}", length, is_causal);
      expect_close(got, want, 2e-6, what);
      const auto got_gradients = gradients(got, {q, k, v}), want_gradients = gradients(want, {q, k, v});
      for (size_t i = 0; i < 3; ++i)
        expect_close(got_gradients[i], want_gradients[i], 1e-5, what + " gradient " + std::to_string(i));
    }
}

struct LossCase {
  int64_t chunk_tokens;
  bool early;
  at::ScalarType type;
  double tolerance;
};

class VocabCrossEntropy : public ::testing::TestWithParam<LossCase> {};

TEST_P(VocabCrossEntropy, EqualsThePlainOneOverRealTokens) {
  const auto& [chunk, early, type, tolerance] = GetParam();
  constexpr int64_t kTokens = 11, kWidth = 8, kRows = 24, kVocab = 21;
  at::Tensor x = wave({kTokens, kWidth}, 0.2, 2.0, type).requires_grad_(),
             table = wave({kRows, kWidth}, 1.2, 2.0, type).requires_grad_();
  const at::Tensor target = at::arange(kTokens).mul(7).remainder(kVocab),
                   weight = wave({kTokens}, 0.3).abs().to(at::kFloat);
  const VocabLoss got = vocab_cross_entropy(x, table, target, weight, {kVocab, chunk, early}, {});
  const at::Tensor logits = x.to(at::kDouble).mm(table.narrow(0, 0, kVocab).to(at::kDouble).t());
  const at::Tensor want_N = at::cross_entropy_loss(logits, target, {}, at::Reduction::None),
                   want = want_N.mul(weight).sum();
  expect_close(got.per_token, want_N, tolerance, "losses");
  expect_close(got.sum, want, tolerance, "sum");
  EXPECT_FALSE(got.per_token.requires_grad());
  const auto got_gradients = torch::autograd::grad({got.sum / 3}, {x, table}),
             want_gradients = torch::autograd::grad({want / 3}, {x, table});  // 1/3 has no few digits
  EXPECT_NEAR(
      got_gradients[0].to(at::kDouble).norm().item<double>() / want_gradients[0].to(at::kDouble).norm().item<double>(),
      1, std::min(tolerance, 1e-3));
  expect_close(got_gradients[0], want_gradients[0], 2 * tolerance, "gradient of x");
  expect_close(got_gradients[1], want_gradients[1], 2 * tolerance, "gradient of the table");
  EXPECT_EQ(got_gradients[1].narrow(0, kVocab, kRows - kVocab).abs().max().item<double>(), 0.0)
      << "padding has no part";
  const c10::NoGradGuard no_grad;
  expect_close(vocab_cross_entropy(x, table, target, {}, {kVocab, chunk, early}, {}).sum, want_N.sum(), tolerance,
               "without weights or gradients");
}

INSTANTIATE_TEST_SUITE_P(Forms, VocabCrossEntropy,
                         ::testing::Values(LossCase{0, true, at::kDouble, 1e-12}, LossCase{4, true, at::kDouble, 1e-12},
                                           LossCase{4, false, at::kDouble, 1e-12}, LossCase{1, true, at::kFloat, 2e-6},
                                           LossCase{100, false, at::kFloat, 2e-6},
                                           LossCase{4, true, at::kBFloat16, 2e-2}, LossCase{4, true, at::kHalf, 3e-3}));

}  // namespace
}  // namespace lockstep::nn
