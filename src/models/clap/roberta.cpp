// Letters: B texts, N real tokens of all texts, T tokens of one text, D width, Q rows whose attention is asked for (N
// or B).
#include "models/clap/roberta.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/where.h>

#include <string>

#include "core/error.h"
#include "core/rng.h"
#include "models/clap/packed_texts.h"
#include "nn/recompute.h"

namespace lockstep::models {
namespace {

constexpr uint64_t kHiddenStream = 0x74646870,
                   kAttentionStream = 0x74646174;  // apart from other draws under the same key
constexpr int64_t kEmbeddings = -1;                // stands for a layer index

using config::TextPooler;

bool reads_first_only(TextPooler pooler) { return pooler == TextPooler::kClass || pooler == TextPooler::kClassHidden; }

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

at::Tensor RobertaLayer::attended(const at::Tensor& query_x_QD, const at::Tensor& x_ND, bool only_first,
                                  const TextPacking& packing, const RobertaDropout& dropout) const {
  about_to_run();
  return attend({query_.forward(query_x_QD), key_.forward(x_ND), value_.forward(x_ND)}, packing,
                {.heads = heads_, .only_first = only_first, .dropout = [&](int64_t block) {
                   return dropout.attention_at(index_, block);
                 }});
}

at::Tensor RobertaLayer::finish(const at::Tensor& x, const at::Tensor& attended, const RobertaDropout& dropout) const {
  const at::Tensor projected = nn::dropout(attention_dense_.forward(attended), dropout.at(index_, 0));
  const at::Tensor middle = attention_norm_.forward(x.add(projected));
  const at::Tensor expanded = intermediate_.forward_activated(middle, nn::Activation::kGelu);
  return output_norm_.forward(middle.add(nn::dropout(output_.forward(expanded), dropout.at(index_, 1))));
}

at::Tensor RobertaLayer::forward(const at::Tensor& x_ND, const TextPacking& packing,
                                 const RobertaDropout& dropout) const {
  return finish(x_ND, attended(x_ND, x_ND, /*only_first=*/false, packing, dropout), dropout);
}

at::Tensor RobertaLayer::forward_first(const at::Tensor& x_ND, const TextPacking& packing,
                                       const RobertaDropout& dropout) const {
  const at::Tensor first_BD = x_ND.index_select(0, packing.first_B);
  return finish(first_BD, attended(first_BD, x_ND, /*only_first=*/true, packing, dropout), dropout);
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
  return pooled_texts(x_ND, packing, shape_.pooler);
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
