#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>

#include "config/clip_shape.h"
#include "nn/transformer.h"

namespace lockstep::models {

/// OpenCLIP's text tower: token and position embeddings, causal blocks, norm and projection of the end-of-text
/// position, which is the first position of the largest token id.
class TextTransformer final : public nn::Module {
 public:
  TextTransformer(const config::ClipShape& shape, bool exact_shortcuts, const at::TensorOptions& options);
  /// [B, T] token ids (int64), T at most the context length -> [B, E], not normalised. Positions after the last
  /// end-of-text token of the batch cannot reach the result: with exact shortcuts they are left out. On a CUDA device
  /// finding them would stall the stream, so there only a caller that passes fewer columns leaves them out.
  at::Tensor forward(const at::Tensor& text_BT);
  void set_checkpointing(bool checkpointing) { transformer_.set_checkpointing(checkpointing); }

 private:
  int64_t context_length_;
  bool exact_shortcuts_;
  nn::Embedding token_embedding_;
  at::Tensor positional_embedding_;
  nn::Transformer transformer_;
  nn::LayerNorm ln_final_;
  at::Tensor text_projection_;
};

}  // namespace lockstep::models
