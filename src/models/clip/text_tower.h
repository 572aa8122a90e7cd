#pragma once
#include <ATen/core/TensorBody.h>

#include "models/forward_context.h"
#include "nn/module.h"

namespace lockstep::models {

/// What a text tower gives to a captioning model.
struct TextFeatures {
  at::Tensor pooled_BE;   ///< Not normalised.
  at::Tensor tokens_BTD;  ///< One row for each id; less than the caller's columns where the tower leaves out what is
                          ///< padding in all texts. In front of the last norm, where there is one.
};

/// The text half of CLIP: token ids to features in the shared space.
class TextTower : public nn::Module {
 public:
  /// [B, T] token ids (int64), T at most the context length -> [B, E], not normalised.
  virtual at::Tensor forward(const at::Tensor& text_BT, const ForwardContext& context) = 0;
  /// The same with the tokens behind the blocks. A tower that no captioning model has refuses (an invariant).
  virtual TextFeatures forward_with_tokens(const at::Tensor& text_BT, const ForwardContext& context);
  /// Recompute blocks in the backward pass.
  virtual void set_checkpointing(bool) = 0;
};

}  // namespace lockstep::models
