// Letters: B texts, N real tokens of all texts, T tokens of one text, D width, H heads.
#include "models/clip/t5_text_tower.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>

#include <cmath>

#include "config/text_towers/t5_text.h"
#include "models/clap/packed_texts.h"
#include "models/clip/image_tower.h"

namespace lockstep::models {
namespace {

/// Buckets of the distances key - query: half of them are for keys behind the query. Of each half, the first half is
/// for one distance each; the others grow with the logarithm, in fp32 as PyTorch computes them.
at::Tensor position_buckets(const config::T5Shape& shape, int64_t longest_text) {
  const int64_t num_half = shape.position_buckets / 2, num_exact = num_half / 2;
  const at::Tensor place = at::arange(longest_text, at::TensorOptions(at::kLong));
  const at::Tensor between_TT = place.unsqueeze(0).sub(place.unsqueeze(1)), distance_TT = between_TT.abs();
  const double growth = std::log(static_cast<double>(shape.farthest_position) / static_cast<double>(num_exact));
  const at::Tensor wide_TT = distance_TT.clamp_min(num_exact)
                                 .to(at::kFloat)
                                 .div(static_cast<double>(num_exact))
                                 .log()
                                 .div(growth)
                                 .mul(static_cast<double>(num_half - num_exact))
                                 .to(at::kLong)
                                 .add(num_exact)
                                 .clamp_max(num_half - 1);
  return at::where(distance_TT.lt(num_exact), distance_TT, wide_TT).add(between_TT.gt(0).to(at::kLong).mul(num_half));
}

}  // namespace

T5Positions::T5Positions(const config::T5Shape& shape, int64_t longest_text, const at::TensorOptions& options)
    : table_(shape.position_buckets, shape.heads, options), heads_(shape.heads),
      bucket_TT_(position_buckets(shape, longest_text).to(options.device())) {
  register_child("", table_);
}

at::Tensor T5Positions::bias_1HTT(int64_t tokens) const {
  const at::Tensor bucket_Q = bucket_TT_.narrow(0, 0, tokens).narrow(1, 0, tokens).flatten();
  return table_.forward(bucket_Q).view({tokens, tokens, heads_}).permute({2, 0, 1}).unsqueeze(0);
}

T5Layer::T5Layer(const config::T5Shape& shape, int64_t index, int64_t longest_text, T5Positions* positions,
                 const at::TensorOptions& options)
    : q_(shape.width, shape.inner_width(), options, /*with_bias=*/false),
      k_(shape.width, shape.inner_width(), options, /*with_bias=*/false),
      v_(shape.width, shape.inner_width(), options, /*with_bias=*/false),
      o_(shape.inner_width(), shape.width, options, /*with_bias=*/false),
      own_positions_(positions == nullptr ? std::make_unique<T5Positions>(shape, longest_text, options) : nullptr),
      positions_(own_positions_ ? own_positions_.get() : positions),
      attention_norm_(config::GptNorm::kRmsNorm, shape.width, shape.norm_epsilon, options),
      wi_0_(shape.width, shape.mlp_width, options, /*with_bias=*/false),
      wi_1_(shape.width, shape.mlp_width, options, /*with_bias=*/false),
      wo_(shape.mlp_width, shape.width, options, /*with_bias=*/false),
      mlp_norm_(config::GptNorm::kRmsNorm, shape.width, shape.norm_epsilon, options), heads_(shape.heads),
      index_(index), head_scale_(std::sqrt(static_cast<double>(shape.head_width))) {
  register_child("layer.0.SelfAttention.q", q_);
  register_child("layer.0.SelfAttention.k", k_);
  register_child("layer.0.SelfAttention.v", v_);
  register_child("layer.0.SelfAttention.o", o_);
  if (own_positions_) register_child("layer.0.SelfAttention.relative_attention_bias", *own_positions_);
  register_child("layer.0.layer_norm", attention_norm_);
  register_child("layer.1.DenseReluDense.wi_0", wi_0_);
  register_child("layer.1.DenseReluDense.wi_1", wi_1_);
  register_child("layer.1.DenseReluDense.wo", wo_);
  register_child("layer.1.layer_norm", mlp_norm_);
  declare_unit();
}

at::Tensor T5Layer::forward(const at::Tensor& x_ND, const TextPacking& packing, const RobertaDropout& dropout,
                            bool only_first) const {
  about_to_run();
  const at::Tensor y_ND = attention_norm_.forward(x_ND);
  const auto asked_for = [&](const at::Tensor& rows) {
    return only_first ? rows.index_select(0, packing.first_B) : rows;
  };
  // nn::attention divides by the root of the head width.
  const at::Tensor attended =
      attend({q_.forward(asked_for(y_ND)).mul(head_scale_), k_.forward(y_ND), v_.forward(y_ND)}, packing,
             {.heads = heads_,
              .only_first = only_first,
              .bias_1HTT = positions_->bias_1HTT(packing.longest()),
              .dropout = [&](int64_t block) { return dropout.attention_at(index_, block); }});
  const at::Tensor middle = asked_for(x_ND).add(nn::dropout(o_.forward(attended), dropout.at(index_, 0)));
  const at::Tensor z = mlp_norm_.forward(middle);
  const at::Tensor gated = nn::activate(wi_0_.forward(z), nn::Activation::kGeluTanh).mul(wi_1_.forward(z));
  const at::Tensor expanded = nn::dropout(gated, dropout.at(index_, 1));
  return middle.add(nn::dropout(wo_.forward(expanded), dropout.at(index_, 2)));
}

T5TextTower::T5TextTower(const config::ClipShape& shape, const ClipModelOptions& options)
    : EncoderTextTower({.pad_id = shape.text.t5.pad_id,
                        .width = shape.text.t5.width,
                        .pooler = shape.text.t5.pooler,
                        .dropout = shape.text.t5.dropout,
                        .attention_dropout = shape.text.t5.dropout},
                       shape, options),
      embed_tokens_(shape.text.t5.vocab_size, shape.text.t5.width, options.tensors),
      final_layer_norm_(config::GptNorm::kRmsNorm, shape.text.t5.width, shape.text.t5.norm_epsilon, options.tensors),
      layers_(shape.text.t5.layers) {
  register_child("transformer.embed_tokens", embed_tokens_);
  T5Positions* positions = nullptr;
  for (int64_t i = 0; i < layers_; ++i) {
    auto layer = std::make_unique<T5Layer>(shape.text.t5, i, shape.text.context_length, positions, options.tensors);
    positions = layer->positions();
    add_layer("transformer.block." + std::to_string(i), std::move(layer));
  }
  register_child("transformer.final_layer_norm", final_layer_norm_);
  register_projection();
}

at::Tensor T5TextTower::embed(const TextPacking& packing) const { return embed_tokens_.forward(packing.id_N); }

at::Tensor T5TextTower::finish(const at::Tensor& x, const RobertaDropout& dropout) const {
  return nn::dropout(final_layer_norm_.forward(x), dropout.at(layers_, 0));
}

}  // namespace lockstep::models

std::unique_ptr<lockstep::models::TextTower> lockstep::config::T5TextTower::build(
    const ClipShape& shape, const models::ClipModelOptions& options) {
  return std::make_unique<models::T5TextTower>(shape, options);
}
