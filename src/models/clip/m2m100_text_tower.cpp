// Letters: B texts, N real tokens of all texts, P places, D width.
#include "models/clip/m2m100_text_tower.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/relu.h>

#include <cmath>
#include <string>

#include "config/text_towers/m2m100_text.h"
#include "models/clap/packed_texts.h"
#include "models/clip/image_tower.h"

namespace lockstep::models {
namespace {

/// Sines, then cosines of the place times frequencies from 1 down to 1 / 10000, in fp32.
at::Tensor sinusoidal_places(int64_t num_places, int64_t width) {
  const int64_t half = width / 2;
  const double step = std::log(10000.0) / static_cast<double>(half - 1);
  const auto fp32 = at::TensorOptions(at::kFloat);
  const at::Tensor angle = at::arange(num_places, fp32).unsqueeze(1).mul(at::arange(half, fp32).mul(-step).exp());
  return at::cat({angle.sin(), angle.cos()}, 1);
}

}  // namespace

M2m100Layer::M2m100Layer(const config::M2m100Shape& shape, int64_t index, const at::TensorOptions& options)
    : k_proj_(shape.width, shape.width, options), v_proj_(shape.width, shape.width, options),
      q_proj_(shape.width, shape.width, options), out_proj_(shape.width, shape.width, options),
      attention_norm_(shape.width, options), fc1_(shape.width, shape.mlp_width, options),
      fc2_(shape.mlp_width, shape.width, options), mlp_norm_(shape.width, options), heads_(shape.heads), index_(index) {
  register_child("self_attn.k_proj", k_proj_);
  register_child("self_attn.v_proj", v_proj_);
  register_child("self_attn.q_proj", q_proj_);
  register_child("self_attn.out_proj", out_proj_);
  register_child("self_attn_layer_norm", attention_norm_);
  register_child("fc1", fc1_);
  register_child("fc2", fc2_);
  register_child("final_layer_norm", mlp_norm_);
  declare_unit();
}

at::Tensor M2m100Layer::forward(const at::Tensor& x_ND, const TextPacking& packing, const RobertaDropout& dropout,
                                bool only_first) const {
  about_to_run();
  const at::Tensor y_ND = attention_norm_.forward(x_ND);
  const auto asked_for = [&](const at::Tensor& rows) {
    return only_first ? rows.index_select(0, packing.first_B) : rows;
  };
  const at::Tensor attended =
      attend({q_proj_.forward(asked_for(y_ND)), k_proj_.forward(y_ND), v_proj_.forward(y_ND)}, packing,
             {.heads = heads_, .only_first = only_first, .dropout = [&](int64_t block) {
                return dropout.attention_at(index_, block);
              }});
  const at::Tensor middle = asked_for(x_ND).add(nn::dropout(out_proj_.forward(attended), dropout.at(index_, 0)));
  const at::Tensor expanded = at::relu(fc1_.forward(mlp_norm_.forward(middle)));
  return middle.add(nn::dropout(fc2_.forward(expanded), dropout.at(index_, 1)));
}

M2m100TextTower::M2m100TextTower(const config::ClipShape& shape, const ClipModelOptions& options)
    : EncoderTextTower({.pad_id = shape.text.m2m100.pad_id,
                        .width = shape.text.m2m100.width,
                        .pooler = shape.text.m2m100.pooler,
                        .dropout = shape.text.m2m100.dropout,
                        .attention_dropout = shape.text.m2m100.attention_dropout},
                       shape, options),
      embed_tokens_(shape.text.m2m100.vocab_size, shape.text.m2m100.width, options.tensors),
      layer_norm_(shape.text.m2m100.width, options.tensors),
      embedding_scale_(std::sqrt(static_cast<double>(shape.text.m2m100.width))),
      place_PD_(sinusoidal_places(shape.text.m2m100.pad_id + 1 + shape.text.context_length, shape.text.m2m100.width)
                    .to(options.tensors.device())) {
  register_child("transformer.embed_tokens", embed_tokens_);
  for (int64_t i = 0; i < shape.text.m2m100.layers; ++i)
    add_layer("transformer.layers." + std::to_string(i),
              std::make_unique<M2m100Layer>(shape.text.m2m100, i, options.tensors));
  register_child("transformer.layer_norm", layer_norm_);
  register_projection();
}

at::Tensor M2m100TextTower::embed(const TextPacking& packing) const {
  const at::Tensor word_ND = embed_tokens_.forward(packing.id_N).mul(embedding_scale_);
  return word_ND.add(place_PD_.index_select(0, packing.position_N).to(word_ND.scalar_type()));
}

at::Tensor M2m100TextTower::finish(const at::Tensor& x, const RobertaDropout&) const { return layer_norm_.forward(x); }

}  // namespace lockstep::models

std::unique_ptr<lockstep::models::TextTower> lockstep::config::M2m100TextTower::build(
    const ClipShape& shape, const models::ClipModelOptions& options) {
  return std::make_unique<models::M2m100TextTower>(shape, options);
}
