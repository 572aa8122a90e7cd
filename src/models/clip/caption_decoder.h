#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>
#include <vector>

#include "config/clip_shape.h"
#include "nn/transformer.h"

namespace lockstep::models {

/// OpenCLIP's MultimodalTransformer: causal blocks over the text tower's tokens, each followed by a block that attends
/// to the picture's tokens; norm and projection to the vocabulary.
class CaptionDecoder final : public nn::Module {
 public:
  CaptionDecoder(const config::ClipShape& shape, const at::TensorOptions& options);
  /// What the logits are made of: [B, T, D] of text [B, T, D] and picture [B, S, D].
  at::Tensor forward(const at::Tensor& image_BSD, const at::Tensor& text_BTD);
  /// Logits [..., V] of rows of forward().
  at::Tensor logits(const at::Tensor& hidden) const;
  /// Which of the targets (int64) the decoder can say.
  at::Tensor is_known(const at::Tensor& target) const;
  /// Which of them the loss of training counts: those but for config::CaptionShape::kUncountedId.
  at::Tensor is_counted(const at::Tensor& target) const;
  /// Sum of the cross entropies of the logits of hidden_BTD with those of target_BT where `counted_BT` (bool) says so,
  /// 0-dim. Logits exist in pieces. Targets beyond the vocabulary must not be counted.
  at::Tensor loss_sum(const at::Tensor& hidden_BTD, const at::Tensor& target_BT, const at::Tensor& counted_BT) const;
  void set_checkpointing(bool checkpointing) { checkpointing_ = checkpointing; }

 private:
  at::Tensor attend(nn::CrossBlock& block, const at::Tensor& image_BSD, const at::Tensor& text_BTD) const;

  bool checkpointing_ = false;
  std::vector<std::unique_ptr<nn::ResidualBlock>> blocks_;
  std::vector<std::unique_ptr<nn::CrossBlock>> cross_blocks_;
  nn::LayerNorm ln_final_;
  at::Tensor text_projection_;
};

}  // namespace lockstep::models
