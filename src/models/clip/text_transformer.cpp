// Letters: B texts, T ids, S = T and the class token, D width, E shared embedding.
#include "models/clip/text_transformer.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

#include "config/text_towers/text_transformer.h"
#include "core/error.h"
#include "models/clip/block_shape.h"
#include "models/clip/image_tower.h"

namespace lockstep::models {

TextFeatures TextTower::forward_with_tokens(const at::Tensor&, const ForwardContext&) {
  LOCKSTEP_CHECK(false, "a text tower without tokens for a decoder");
}

TextTransformer::TextTransformer(const config::ClipShape& shape, bool exact_shortcuts, const at::TensorOptions& options)
    : shape_(shape.text), exact_shortcuts_(exact_shortcuts),
      token_embedding_(shape.text.vocab_size, shape.text.width, options),
      positional_embedding_(nn::make_parameter({shape.text.positions(), shape.text.width}, options)),
      transformer_(shape.text.layers, block_shape(shape.text, shape.text.heads, shape.quick_gelu), shape.text.is_causal,
                   options),
      ln_final_(shape.text.width, options, shape.text.norm_epsilon) {
  register_child("token_embedding", token_embedding_);
  if (shape_.has_class_token) {
    class_embedding_ = nn::make_parameter({shape_.width}, options);
    register_parameter("cls_emb", class_embedding_);
  }
  register_parameter("positional_embedding", positional_embedding_);
  register_child("transformer", transformer_);
  register_child("ln_final", ln_final_);
  if (shape_.projection == config::TextProjection::kMatrix) {
    text_projection_ = nn::make_parameter({shape_.width, shape.embed_dim}, options);
    register_parameter("text_projection", text_projection_);
  }
  if (shape_.projection == config::TextProjection::kLinear)
    register_child("text_projection", linear_projection_.emplace(shape_.width, shape.embed_dim, options));
}

/// The low-precision type under --precision bf16, where embeddings stay fp32.
at::ScalarType TextTransformer::compute_type() const { return transformer_.parameter_type(); }

at::Tensor TextTransformer::embed(const at::Tensor& text_BT) const {
  const int64_t batch = text_BT.size(0), columns = text_BT.size(1);
  const at::ScalarType type = compute_type();
  const at::Tensor position_TD = positional_embedding_.narrow(0, 0, columns).to(type);
  const at::Tensor x_BTD = token_embedding_.forward(text_BT).to(type).add(position_TD);
  if (!shape_.has_class_token) return x_BTD;
  // The class token's place is behind a text of full length, however many columns there are.
  const at::Tensor class_D =
      class_embedding_.to(type).add(positional_embedding_.select(0, shape_.context_length).to(type));
  return at::cat({x_BTD, class_D.expand({batch, 1, shape_.width})}, 1);
}

at::Tensor TextTransformer::pooled_position(const at::Tensor& text_BT) const {
  switch (shape_.pool) {
    case config::TextPool::kLargestId: return text_BT.argmax(1);
    case config::TextPool::kEndId: return text_BT.eq(shape_.eos_id).to(at::kInt).argmax(1);
    case config::TextPool::kFirst: return at::zeros({text_BT.size(0)}, text_BT.options());
    case config::TextPool::kLast: break;
  }
  return at::full({text_BT.size(0)}, text_BT.size(1) - 1, text_BT.options());
}

at::Tensor TextTransformer::project(const at::Tensor& pooled_BD) const {
  if (linear_projection_) return linear_projection_->forward(pooled_BD);
  return text_projection_.defined() ? at::matmul(pooled_BD, text_projection_) : pooled_BD;
}

at::Tensor TextTransformer::without_padding(const at::Tensor& text_BT) const {
  if (!exact_shortcuts_ || !text_BT.is_cpu() || text_BT.numel() == 0) return text_BT;
  const at::Tensor is_used_T = text_BT.ne(shape_.pad_id).any(0);
  const int64_t num_used = is_used_T.any().item<bool>() ? is_used_T.nonzero().max().item<int64_t>() + 1 : 0;
  return text_BT.narrow(1, 0, std::min(num_used + 1, text_BT.size(1)));
}

/// As OpenCLIP 3.3.0 masks: position j, if not the first, is seen by those from j on where the id before it is no
/// padding. Its weights were trained with that shift.
at::Tensor TextTransformer::class_token_mask(const at::Tensor& text_BT, const at::TensorOptions& options) const {
  const int64_t batch = text_BT.size(0), rows = text_BT.size(1) + 1;
  const at::Tensor is_seen_BS =
      at::cat({at::ones({batch, 1}, text_BT.options().dtype(at::kBool)), text_BT.ne(shape_.pad_id)}, 1);
  const double hidden = -std::numeric_limits<double>::infinity();
  return nn::causal_mask(rows, options)
      .expand({batch, 1, rows, rows})
      .masked_fill(is_seen_BS.logical_not().view({batch, 1, 1, rows}), hidden);
}

TextFeatures TextTransformer::forward_with_tokens(const at::Tensor& text_BT, const ForwardContext& context) {
  LOCKSTEP_CHECK(shape_.has_class_token, "tokens are asked of a text tower without a class token");
  LOCKSTEP_CHECK(text_BT.dim() == 2 && text_BT.size(1) <= shape_.context_length, "{} columns, expected at most {}",
                 text_BT.size(1), shape_.context_length);
  const at::Tensor used_BT = context.keeps_padding ? text_BT : without_padding(text_BT);
  const at::Tensor embedded_BSD = embed(used_BT);
  const at::Tensor x_BSD = transformer_.forward(embedded_BSD, class_token_mask(used_BT, embedded_BSD.options()));
  const at::Tensor class_BD = x_BSD.select(1, used_BT.size(1));
  return {project(ln_final_.forward(class_BD)), x_BSD.narrow(1, 0, used_BT.size(1))};
}

at::Tensor TextTransformer::forward(const at::Tensor& text_BT, const ForwardContext& context) {
  if (shape_.has_class_token) return forward_with_tokens(text_BT, context).pooled_BE;
  LOCKSTEP_CHECK(text_BT.dim() == 2 && text_BT.size(1) <= shape_.context_length, "{} columns, expected at most {}",
                 text_BT.size(1), shape_.context_length);
  const at::Tensor place_B = pooled_position(text_BT);
  at::Tensor used_BT = text_BT;
  if (exact_shortcuts_ && shape_.is_causal && text_BT.is_cpu() && text_BT.size(0) > 0)
    used_BT = text_BT.narrow(1, 0, place_B.max().item<int64_t>() + 1);
  return project(ln_final_.forward(transformer_.forward_pooled(embed(used_BT), place_B, exact_shortcuts_)));
}

}  // namespace lockstep::models

std::unique_ptr<lockstep::models::TextTower> lockstep::config::TextTransformerTower::build(
    const ClipShape& shape, const models::ClipModelOptions& options) {
  return std::make_unique<models::TextTransformer>(shape, options.exact_shortcuts, options.tensors);
}
