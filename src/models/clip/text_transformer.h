#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <optional>

#include "config/clip_shape.h"
#include "models/clip/text_tower.h"
#include "nn/transformer.h"

namespace lockstep::models {

/// OpenCLIP's text tower: token and position embeddings, blocks (causal or not), norm and projection of one position
/// (config::TextPool) or of a class token behind the others.
class TextTransformer final : public TextTower {
 public:
  TextTransformer(const config::ClipShape& shape, bool exact_shortcuts, const at::TensorOptions& options);
  /// Positions that cannot reach the result are left out with exact shortcuts: under a causal mask those after the last
  /// position of the batch that is pooled. On a CUDA device finding them would stall the stream, so there only a caller
  /// that passes fewer columns leaves them out.
  at::Tensor forward(const at::Tensor& text_BT, const ForwardContext& context) override;
  TextFeatures forward_with_tokens(const at::Tensor& text_BT, const ForwardContext& context) override;
  void set_checkpointing(bool checkpointing) override { transformer_.set_checkpointing(checkpointing); }

 private:
  /// Token embeddings with positions, [B, T, D]; with the class token's row behind them, where there is one.
  at::Tensor embed(const at::Tensor& text_BT) const;
  at::Tensor pooled_position(const at::Tensor& text_BT) const;
  at::Tensor project(const at::Tensor& pooled_BD) const;
  /// Ids up to the last that a text of the batch has, and one of padding, which the class token sees.
  at::Tensor without_padding(const at::Tensor& text_BT) const;
  at::Tensor class_token_mask(const at::Tensor& text_BT, const at::TensorOptions& options) const;
  at::ScalarType compute_type() const;

  config::TextShape shape_;
  bool exact_shortcuts_;
  nn::Embedding token_embedding_;
  at::Tensor class_embedding_, positional_embedding_;
  nn::Transformer transformer_;
  nn::LayerNorm ln_final_;
  at::Tensor text_projection_;
  std::optional<nn::Linear> linear_projection_;
};

}  // namespace lockstep::models
