#pragma once
#include <ATen/core/TensorBody.h>

#include "config/m2m100_shape.h"
#include "models/clip/encoder_text_tower.h"
#include "nn/layers.h"

namespace lockstep::models {

/// One layer of M2M100's encoder: x + attention(norm(x)), then x + mlp(norm(x)) with ReLU.
class M2m100Layer final : public EncoderLayer {
 public:
  M2m100Layer(const config::M2m100Shape& shape, int64_t index, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_ND, const TextPacking& packing, const RobertaDropout& dropout,
                     bool only_first) const override;
  at::ScalarType parameter_type() const override { return q_proj_.weight().scalar_type(); }

 private:
  nn::Linear k_proj_, v_proj_, q_proj_, out_proj_;
  nn::LayerNorm attention_norm_;
  nn::Linear fc1_, fc2_;
  nn::LayerNorm mlp_norm_;
  int64_t heads_, index_;
};

/// NLLB's encoder: scaled embeddings, sines and cosines of the places.
class M2m100TextTower final : public EncoderTextTower {
 public:
  M2m100TextTower(const config::ClipShape& shape, const ClipModelOptions& options);

 private:
  at::Tensor embed(const TextPacking& packing) const override;
  at::Tensor finish(const at::Tensor& x, const RobertaDropout& dropout) const override;

  nn::Embedding embed_tokens_;
  nn::LayerNorm layer_norm_;
  double embedding_scale_;
  at::Tensor place_PD_;  // of TextPacking::position_N
};

}  // namespace lockstep::models
