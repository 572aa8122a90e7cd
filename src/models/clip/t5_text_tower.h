#pragma once
#include <ATen/core/TensorBody.h>

#include <optional>

#include "config/t5_shape.h"
#include "models/clip/encoder_text_tower.h"
#include "nn/layers.h"
#include "nn/norm.h"

namespace lockstep::models {

/// What T5 adds to the scores of attention for the distance of two tokens: one table, which all layers read.
class T5Positions : public nn::Module {
 public:
  T5Positions(const config::T5Shape& shape, int64_t longest_text, const at::TensorOptions& options);
  at::Tensor bias_1HTT(int64_t tokens) const;

 private:
  nn::Embedding table_;
  int64_t heads_;
  at::Tensor bucket_TT_;  // of a query (row) and a key, for the longest text
};

/// One layer of mT5's encoder: x + attention(norm(x)), then x + gated(norm(x)). Nothing has a bias, scores are not
/// scaled.
class T5Layer final : public EncoderLayer {
 public:
  /// `positions`: those of the first layer; nullptr there, which makes and registers them.
  T5Layer(const config::T5Shape& shape, int64_t index, int64_t longest_text, T5Positions* positions,
          const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_ND, const TextPacking& packing, const RobertaDropout& dropout,
                     bool only_first) const override;
  at::ScalarType parameter_type() const override { return q_.weight().scalar_type(); }
  nn::Module* shared_module() const override { return own_positions_ ? nullptr : positions_; }
  T5Positions* positions() const { return positions_; }

 private:
  nn::Linear q_, k_, v_, o_;
  std::unique_ptr<T5Positions> own_positions_;
  T5Positions* positions_;
  nn::Norm attention_norm_;
  nn::Linear wi_0_, wi_1_, wo_;
  nn::Norm mlp_norm_;
  int64_t heads_, index_;
  double head_scale_;
};

class T5TextTower final : public EncoderTextTower {
 public:
  T5TextTower(const config::ClipShape& shape, const ClipModelOptions& options);

 private:
  at::Tensor embed(const TextPacking& packing) const override;
  at::Tensor finish(const at::Tensor& x, const RobertaDropout& dropout) const override;

  nn::Embedding embed_tokens_;
  nn::Norm final_layer_norm_;
  int64_t layers_;
};

}  // namespace lockstep::models
