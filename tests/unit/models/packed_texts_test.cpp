#include "models/clap/packed_texts.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/tensor_golden.h"

namespace lockstep::models {
namespace {

/// Texts of 3, 1, 5 and 3 tokens; 0 is padding.
at::Tensor four_texts() {
  return at::tensor({4, 5, 6, 0, 0, 0, 7, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 0, 9, 8, 7, 0, 0, 0}, at::kLong).view({4, 6});
}

/// softmax(q k^t / sqrt K + bias) v of one text, head by head.
at::Tensor attended(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t heads,
                    const at::Tensor& bias_HTT) {
  const int64_t tokens = k.size(0), width = k.size(1) / heads;
  std::vector<at::Tensor> parts;
  for (int64_t h = 0; h < heads; ++h) {
    const auto head = [&](const at::Tensor& x) { return x.narrow(1, h * width, width); };
    at::Tensor scores = head(q).mm(head(k).t()) / std::sqrt(static_cast<double>(width));
    if (bias_HTT.defined()) scores = scores + bias_HTT[h].narrow(0, 0, q.size(0)).narrow(1, 0, tokens);
    parts.push_back(scores.softmax(-1).mm(head(v)));
  }
  return at::cat(parts, 1);
}

TEST(PackedTexts, AttentionStaysWithinEachText) {
  constexpr int64_t kHeads = 2, kWidth = 8;
  at::manual_seed(5);
  for (const TextAttention how : {TextAttention::kByLength, TextAttention::kPadded})
    for (const bool only_first : {false, true})
      for (const bool has_bias : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {} {}", static_cast<int>(how), only_first, has_bias));
        const TextPacking packing = pack_texts(four_texts(), 0, 6, at::kCPU, how);
        const at::Tensor q = at::randn({12, kWidth}), k = at::randn({12, kWidth}), v = at::randn({12, kWidth});
        const at::Tensor bias = has_bias ? at::randn({1, kHeads, 5, 5}) : at::Tensor();
        const at::Tensor got =
            attend({only_first ? q.index_select(0, packing.first_B) : q, k, v}, packing,
                   {.heads = kHeads, .only_first = only_first, .bias_1HTT = bias, .dropout = [](int64_t) {
                      return nn::Dropout{};
                    }});
        std::vector<at::Tensor> want;
        int64_t row = 0;
        for (const int64_t tokens : {1, 3, 3, 5}) {
          want.push_back(attended(q.narrow(0, row, only_first ? 1 : tokens), k.narrow(0, row, tokens),
                                  v.narrow(0, row, tokens), kHeads, has_bias ? bias[0] : bias));
          row += tokens;
        }
        tests::expect_close(got, at::cat(want), 1e-5, "attention");
      }
}

TEST(PackedTexts, PoolersReadTokensAlone) {
  at::manual_seed(6);
  const at::Tensor x = at::randn({12, 4});
  for (const TextAttention how : {TextAttention::kByLength, TextAttention::kPadded}) {
    const TextPacking packing = pack_texts(four_texts(), 0, 6, at::kCPU, how);
    const at::Tensor mean = pooled_texts(x, packing, config::TextPooler::kMean),
                     most = pooled_texts(x, packing, config::TextPooler::kMax);
    int64_t row = 0, text = 0;
    for (const int64_t tokens : {1, 3, 3, 5}) {
      tests::expect_close(mean[text], x.narrow(0, row, tokens).mean(0), 1e-5, "mean");
      tests::expect_close(most[text], at::amax(x.narrow(0, row, tokens), 0), 1e-5, "max");
      row += tokens;
      ++text;
    }
  }
}

}  // namespace
}  // namespace lockstep::models
