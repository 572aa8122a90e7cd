// Letters: B texts, N real tokens of all texts, T tokens of one text, n texts of a block, H heads, K head width.
#include "models/clap/packed_texts.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/cat.h>

#include <limits>
#include <vector>

#include "nn/attention.h"

namespace lockstep::models {
namespace {

using config::TextPooler;

/// The dense block of `rows` as heads: [n T, D] -> [n, H, T, K].
at::Tensor heads_first(const at::Tensor& rows, int64_t num_texts, int64_t heads) {
  return rows.view({num_texts, -1, heads, rows.size(1) / heads}).transpose(1, 2);
}

/// The part of the bias for texts of `tokens`; undefined where there is none.
at::Tensor bias_of(const PackedAttention& attention, int64_t tokens, at::ScalarType type) {
  if (!attention.bias_1HTT.defined()) return {};
  return attention.bias_1HTT.narrow(2, 0, attention.only_first ? 1 : tokens).narrow(3, 0, tokens).to(type);
}

at::Tensor attend_by_length(const PackedRows& rows, const TextPacking& packing, const PackedAttention& attention) {
  const int64_t heads = attention.heads;
  std::vector<int64_t> query_rows, key_rows = packing.block_rows();
  for (const TextPacking::Block& block : packing.blocks)
    query_rows.push_back(attention.only_first ? block.num_texts : block.rows());
  const auto q = rows.query_QD.split_with_sizes(query_rows), k = rows.key_ND.split_with_sizes(key_rows),
             v = rows.value_ND.split_with_sizes(key_rows);
  std::vector<at::Tensor> attended;
  for (size_t i = 0; i < packing.blocks.size(); ++i) {
    const int64_t texts = packing.blocks[i].num_texts;
    const at::Tensor y =
        nn::attention(heads_first(q[i], texts, heads), heads_first(k[i], texts, heads), heads_first(v[i], texts, heads),
                      bias_of(attention, packing.blocks[i].tokens, rows.query_QD.scalar_type()),
                      /*is_causal=*/false, attention.dropout(static_cast<int64_t>(i)));
    attended.push_back(y.transpose(1, 2).reshape({query_rows[i], rows.query_QD.size(1)}));
  }
  return attended.size() == 1 ? attended[0] : at::cat(attended);
}

at::Tensor attend_padded(const PackedRows& rows, const TextPacking& packing, const PackedAttention& attention) {
  const int64_t texts = packing.num_texts(), heads = attention.heads;
  const auto spread = [&](const at::Tensor& x_ND) {
    return heads_first(packing.padded(x_ND, 0).flatten(0, 1), texts, heads);
  };
  const at::ScalarType type = rows.query_QD.scalar_type();
  const at::Tensor padding = packing.mask_B11T.to(type), bias = bias_of(attention, packing.longest(), type);
  const at::Tensor y_BHQK =
      nn::attention(attention.only_first ? heads_first(rows.query_QD, texts, heads) : spread(rows.query_QD),
                    spread(rows.key_ND), spread(rows.value_ND), bias.defined() ? padding.add(bias) : padding,
                    /*is_causal=*/false, attention.dropout(0));
  const at::Tensor y_RD = y_BHQK.transpose(1, 2).reshape({-1, rows.query_QD.size(1)});
  return attention.only_first ? y_RD : y_RD.index_select(0, packing.slot_N);
}

}  // namespace

at::Tensor attend(const PackedRows& rows, const TextPacking& packing, const PackedAttention& attention) {
  return packing.is_padded() ? attend_padded(rows, packing, attention) : attend_by_length(rows, packing, attention);
}

at::Tensor pooled_texts(const at::Tensor& x_ND, const TextPacking& packing, TextPooler pooler) {
  if (pooler == TextPooler::kClass || pooler == TextPooler::kClassHidden) return x_ND;
  const bool is_mean = pooler == TextPooler::kMean;
  if (packing.is_padded()) {
    const at::Tensor x_BTD = packing.tokens_alone(x_ND, is_mean ? 0.0 : -std::numeric_limits<double>::infinity());
    return is_mean ? x_BTD.sum(1).div(packing.length_B.unsqueeze(1)) : at::amax(x_BTD, 1);
  }
  const auto parts = x_ND.split_with_sizes(packing.block_rows());
  std::vector<at::Tensor> pooled;
  for (size_t i = 0; i < parts.size(); ++i) {
    const at::Tensor x_nTD = parts[i].view({packing.blocks[i].num_texts, packing.blocks[i].tokens, x_ND.size(1)});
    pooled.push_back(is_mean ? x_nTD.mean(1) : at::amax(x_nTD, 1));
  }
  return at::cat(pooled);
}

}  // namespace lockstep::models
