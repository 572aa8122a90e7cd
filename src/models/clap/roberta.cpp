// Letters: B texts, N real tokens of all texts, T tokens of one text, n texts of a block, D width, H heads, K head
// width, Q rows whose attention is asked for (N or B).
#include "models/clap/roberta.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/where.h>

#include <limits>
#include <string>

#include "core/error.h"
#include "core/rng.h"
#include "nn/attention.h"
#include "nn/recompute.h"

namespace lockstep::models {
namespace {

constexpr uint64_t kHiddenStream = 0x74646870,
                   kAttentionStream = 0x74646174;  // apart from other draws under the same key
constexpr int64_t kEmbeddings = -1;                // stands for a layer index

using config::TextPooler;

bool reads_first_only(TextPooler pooler) { return pooler == TextPooler::kClass || pooler == TextPooler::kClassHidden; }

/// The dense block of `rows` as heads: [n T, D] -> [n, H, T, K].
at::Tensor heads_first(const at::Tensor& rows, int64_t num_texts, int64_t heads) {
  return rows.view({num_texts, -1, heads, rows.size(1) / heads}).transpose(1, 2);
}

}  // namespace

nn::Dropout RobertaDropout::at(int64_t layer, uint64_t place) const {
  return {hidden, core::stream_key({key, kHiddenStream, static_cast<uint64_t>(layer), place})};
}

nn::Dropout RobertaDropout::attention_at(int64_t layer, int64_t block) const {
  return {attention,
          core::stream_key({key, kAttentionStream, static_cast<uint64_t>(layer), static_cast<uint64_t>(block)})};
}

RobertaLayer::RobertaLayer(const config::RobertaShape& shape, int64_t index, const at::TensorOptions& options)
    : query_(shape.width, shape.width, options), key_(shape.width, shape.width, options),
      value_(shape.width, shape.width, options), attention_dense_(shape.width, shape.width, options),
      attention_norm_(shape.width, options), intermediate_(shape.width, shape.mlp_width, options),
      output_(shape.mlp_width, shape.width, options), output_norm_(shape.width, options), heads_(shape.heads),
      index_(index) {
  register_child("attention.self.query", query_);
  register_child("attention.self.key", key_);
  register_child("attention.self.value", value_);
  register_child("attention.output.dense", attention_dense_);
  register_child("attention.output.LayerNorm", attention_norm_);
  register_child("intermediate.dense", intermediate_);
  register_child("output.dense", output_);
  register_child("output.LayerNorm", output_norm_);
  declare_unit();
}

at::Tensor RobertaLayer::attend(const at::Tensor& query_x_QD, const at::Tensor& x_ND, bool only_first,
                                const TextPacking& packing, const RobertaDropout& dropout) const {
  about_to_run();
  const Projections rows{query_.forward(query_x_QD), key_.forward(x_ND), value_.forward(x_ND)};
  return packing.is_padded() ? attend_padded(rows, only_first, packing, dropout)
                             : attend_by_length(rows, only_first, packing, dropout);
}

at::Tensor RobertaLayer::attend_by_length(const Projections& rows, bool only_first, const TextPacking& packing,
                                          const RobertaDropout& dropout) const {
  std::vector<int64_t> query_rows, key_rows = packing.block_rows();
  for (const TextPacking::Block& block : packing.blocks)
    query_rows.push_back(only_first ? block.num_texts : block.rows());
  const auto q = rows.query_QD.split_with_sizes(query_rows), k = rows.key_ND.split_with_sizes(key_rows),
             v = rows.value_ND.split_with_sizes(key_rows);
  std::vector<at::Tensor> attended;
  for (size_t i = 0; i < packing.blocks.size(); ++i) {
    const int64_t texts = packing.blocks[i].num_texts;
    const at::Tensor y = nn::attention(heads_first(q[i], texts, heads_), heads_first(k[i], texts, heads_),
                                       heads_first(v[i], texts, heads_), {}, /*is_causal=*/false,
                                       dropout.attention_at(index_, static_cast<int64_t>(i)));
    attended.push_back(y.transpose(1, 2).reshape({query_rows[i], rows.query_QD.size(1)}));
  }
  return attended.size() == 1 ? attended[0] : at::cat(attended);
}

at::Tensor RobertaLayer::attend_padded(const Projections& rows, bool only_first, const TextPacking& packing,
                                       const RobertaDropout& dropout) const {
  const int64_t texts = packing.num_texts();
  const auto spread = [&](const at::Tensor& x_ND) {
    return heads_first(packing.padded(x_ND, 0).flatten(0, 1), texts, heads_);
  };
  const at::Tensor y_BHQK =
      nn::attention(only_first ? heads_first(rows.query_QD, texts, heads_) : spread(rows.query_QD), spread(rows.key_ND),
                    spread(rows.value_ND), packing.mask_B11T.to(rows.query_QD.scalar_type()), /*is_causal=*/false,
                    dropout.attention_at(index_, 0));
  const at::Tensor y_RD = y_BHQK.transpose(1, 2).reshape({-1, rows.query_QD.size(1)});
  return only_first ? y_RD : y_RD.index_select(0, packing.slot_N);
}

at::Tensor RobertaLayer::finish(const at::Tensor& x, const at::Tensor& attended, const RobertaDropout& dropout) const {
  const at::Tensor projected = nn::dropout(attention_dense_.forward(attended), dropout.at(index_, 0));
  const at::Tensor middle = attention_norm_.forward(x.add(projected));
  const at::Tensor expanded = nn::activate(intermediate_.forward(middle), nn::Activation::kGelu);
  return output_norm_.forward(middle.add(nn::dropout(output_.forward(expanded), dropout.at(index_, 1))));
}

at::Tensor RobertaLayer::forward(const at::Tensor& x_ND, const TextPacking& packing,
                                 const RobertaDropout& dropout) const {
  return finish(x_ND, attend(x_ND, x_ND, /*only_first=*/false, packing, dropout), dropout);
}

at::Tensor RobertaLayer::forward_first(const at::Tensor& x_ND, const TextPacking& packing,
                                       const RobertaDropout& dropout) const {
  const at::Tensor first_BD = x_ND.index_select(0, packing.first_B);
  return finish(first_BD, attend(first_BD, x_ND, /*only_first=*/true, packing, dropout), dropout);
}

RobertaTower::RobertaTower(const config::RobertaShape& shape, bool exact_shortcuts, const at::TensorOptions& options)
    : shape_(shape), exact_shortcuts_(exact_shortcuts), word_embeddings_(shape.vocab_size, shape.width, options),
      position_embeddings_(shape.max_positions, shape.width, options),
      token_type_embeddings_(nn::make_parameter({shape.token_types, shape.width}, options)),
      embedding_norm_(shape.width, options) {
  register_child("embeddings.word_embeddings", word_embeddings_);
  register_parameter("embeddings.token_type_embeddings.weight", token_type_embeddings_);
  register_child("embeddings.LayerNorm", embedding_norm_);
  // The place that transformers 5 gives them, by which OpenCLIP's optimiser counts.
  register_child("embeddings.position_embeddings", position_embeddings_);
  for (int64_t i = 0; i < shape.layers; ++i) {
    layers_.push_back(std::make_unique<RobertaLayer>(shape, i, options));
    register_child("encoder.layer." + std::to_string(i), *layers_.back());
  }
  if (shape.pooler == TextPooler::kClass) {
    pooler_ = std::make_unique<nn::Linear>(shape.width, shape.width, options);
    register_child("pooler.dense", *pooler_);
  }
}

at::Tensor RobertaTower::embed(const TextPacking& packing, const RobertaDropout& dropout) const {
  at::Tensor word_ND = word_embeddings_.forward(packing.id_N),
             position_ND = position_embeddings_.forward(packing.position_N);
  if (packing.is_padding_N.defined()) {  // whose rows of both tables Hugging Face never trains
    const at::Tensor is_padding_N1 = packing.is_padding_N.unsqueeze(1);
    word_ND = at::where(is_padding_N1, word_ND.detach(), word_ND);
    position_ND = at::where(is_padding_N1, position_ND.detach(), position_ND);
  }
  const at::Tensor sum_ND = word_ND.add(token_type_embeddings_.select(0, 0)).add(position_ND);
  return nn::dropout(embedding_norm_.forward(sum_ND), dropout.at(kEmbeddings, 0));
}

at::Tensor RobertaTower::run_layer(RobertaLayer& layer, const at::Tensor& x_ND, const TextPacking& packing,
                                   const RobertaDropout& dropout, bool only_first) const {
  const auto compute = [&layer, packing, dropout, only_first](const at::Tensor& x) {
    return only_first ? layer.forward_first(x, packing, dropout) : layer.forward(x, packing, dropout);
  };
  return checkpointing_ ? nn::recomputed(layer, x_ND, compute) : compute(x_ND);
}

at::Tensor RobertaTower::pool(const at::Tensor& x_ND, const TextPacking& packing) const {
  if (shape_.pooler == TextPooler::kClass) return pooler_->forward(x_ND).tanh();
  if (shape_.pooler == TextPooler::kClassHidden) return x_ND;
  const bool is_mean = shape_.pooler == TextPooler::kMean;
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

at::Tensor RobertaTower::encode(const TextPacking& packing, const ForwardContext& context, bool first_only) const {
  RobertaDropout dropout{.key = context.random_key};
  if (is_training()) {
    dropout.hidden = shape_.dropout;
    dropout.attention = shape_.attention_dropout;
  }
  // Under --precision bf16 embeddings stay fp32 while the layers are bf16.
  at::Tensor x = embed(packing, dropout).to(layers_.front()->parameter_type());
  for (size_t i = 0; i < layers_.size(); ++i)
    x = run_layer(*layers_[i], x, packing, dropout, first_only && i + 1 == layers_.size());
  return x;
}

at::Tensor RobertaTower::forward(const at::Tensor& text_BT, const ForwardContext& context) {
  LOCKSTEP_CHECK(text_BT.dim() == 2, "dims={}", text_BT.dim());
  const at::Device device = token_type_embeddings_.device();
  const TextPacking packing =
      pack_texts(text_BT, shape_.pad_id, shape_.longest_text(), device, text_attention_on(device));
  const bool first_only = reads_first_only(shape_.pooler);
  at::Tensor x = encode(packing, context, first_only && exact_shortcuts_);
  if (first_only && !exact_shortcuts_) x = x.index_select(0, packing.first_B);
  return pool(x, packing).index_select(0, packing.place_B);
}

RobertaTokens RobertaTower::forward_with_tokens(const at::Tensor& text_BT, const ForwardContext& context) {
  LOCKSTEP_CHECK(text_BT.dim() == 2 && text_BT.size(1) <= shape_.longest_text(), "dims={}", text_BT.dim());
  const TextPacking packing = whole_texts(text_BT.to(token_type_embeddings_.device()), shape_.pad_id);
  const at::Tensor x_ND = encode(packing, context, /*first_only=*/false);
  const at::Tensor pooled_BD =
      pool(reads_first_only(shape_.pooler) ? x_ND.index_select(0, packing.first_B) : x_ND, packing);
  return {pooled_BD, x_ND.view({text_BT.size(0), text_BT.size(1), x_ND.size(1)})};
}

}  // namespace lockstep::models
