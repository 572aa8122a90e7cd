#include "models/clip/text_transformer.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/matmul.h>

#include "core/error.h"
#include "models/clip/block_shape.h"

namespace lockstep::models {

TextTransformer::TextTransformer(const config::ClipShape& shape, bool exact_shortcuts, const at::TensorOptions& options)
    : context_length_(shape.text.context_length), exact_shortcuts_(exact_shortcuts),
      token_embedding_(shape.text.vocab_size, shape.text.width, options),
      positional_embedding_(nn::make_parameter({shape.text.context_length, shape.text.width}, options)),
      transformer_(shape.text.layers, block_shape(shape.text, shape.text.heads, shape.quick_gelu), /*is_causal=*/true,
                   options),
      ln_final_(shape.text.width, options),
      text_projection_(nn::make_parameter({shape.text.width, shape.embed_dim}, options)) {
  register_child("token_embedding", token_embedding_);
  register_parameter("positional_embedding", positional_embedding_);
  register_child("transformer", transformer_);
  register_child("ln_final", ln_final_);
  register_parameter("text_projection", text_projection_);
}

at::Tensor TextTransformer::forward(const at::Tensor& text_BT) {
  LOCKSTEP_CHECK(text_BT.dim() == 2 && text_BT.size(1) <= context_length_, "{} columns, expected at most {}",
                 text_BT.size(1), context_length_);
  const at::Tensor end_B = text_BT.argmax(1);
  at::Tensor used_BT = text_BT;
  if (exact_shortcuts_ && text_BT.is_cpu() && text_BT.size(0) > 0)
    used_BT = text_BT.narrow(1, 0, end_B.max().item<int64_t>() + 1);
  // the low-precision type under --precision bf16, where embeddings stay fp32
  const at::ScalarType type = text_projection_.scalar_type();
  const at::Tensor position_TD = positional_embedding_.narrow(0, 0, used_BT.size(1)).to(type);
  const at::Tensor x_BTD = token_embedding_.forward(used_BT).to(type).add(position_TD);
  return at::matmul(ln_final_.forward(transformer_.forward_pooled(x_BTD, end_B, exact_shortcuts_)), text_projection_);
}

}  // namespace lockstep::models
