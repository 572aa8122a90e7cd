#include "models/clip/roberta_text_tower.h"

#include <ATen/core/Tensor.h>

#include "config/text_towers/roberta_text.h"
#include "models/clip/image_tower.h"

namespace lockstep::models {

RobertaTextTower::RobertaTextTower(const config::ClipShape& shape, bool exact_shortcuts,
                                   const at::TensorOptions& options)
    : transformer_(shape.text.roberta, exact_shortcuts, options),
      proj_(shape.text.roberta.width, shape.embed_dim, shape.text.encoder_projection, options) {
  register_child("transformer", transformer_);
  register_child("proj", proj_);
}

at::Tensor RobertaTextTower::forward(const at::Tensor& text_BT, const ForwardContext& context) {
  return proj_.forward(transformer_.forward(text_BT, context));
}

TextFeatures RobertaTextTower::forward_with_tokens(const at::Tensor& text_BT, const ForwardContext& context) {
  const RobertaTokens tokens = transformer_.forward_with_tokens(text_BT, context);
  return {proj_.forward(tokens.pooled_BD), tokens.tokens_BTD};
}

}  // namespace lockstep::models

std::unique_ptr<lockstep::models::TextTower> lockstep::config::RobertaTextTower::build(
    const ClipShape& shape, const models::ClipModelOptions& options) {
  return std::make_unique<models::RobertaTextTower>(shape, options.exact_shortcuts, options.tensors);
}
