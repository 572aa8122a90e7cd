// Letters: B micro-batch, C = 3 colours, Y = X pixels, P patches, T tokens, D width.
#include "models/imagenet/vision_classifier.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>

#include <string>

#include "core/error.h"

namespace lockstep::models {
namespace {

constexpr double kEpsilon = 1e-6;  // torchvision's

nn::Norm layer_norm(int64_t width, const at::TensorOptions& options) {
  return nn::Norm(config::GptNorm::kLayerNorm, width, kEpsilon, options);
}

}  // namespace

EncoderBlock::EncoderBlock(const config::ClassifierShape& shape, const at::TensorOptions& options)
    : ln_1_(layer_norm(shape.width, options)), self_attention_(shape.width, shape.heads, options),
      ln_2_(layer_norm(shape.width, options)), mlp_0_(shape.width, shape.mlp_width, options),
      mlp_3_(shape.mlp_width, shape.width, options) {
  register_child("ln_1", ln_1_);
  register_child("self_attention", self_attention_);
  register_child("ln_2", ln_2_);
  register_child("mlp.0", mlp_0_);
  register_child("mlp.3", mlp_3_);
  declare_unit();
}

at::Tensor EncoderBlock::finish(const at::Tensor& x, const at::Tensor& attended) const {
  const auto [middle, normed] = ln_2_.forward_sum(x, attended);
  return middle.add(mlp_3_.forward(mlp_0_.forward_activated(normed, nn::Activation::kGelu)));
}

at::Tensor EncoderBlock::forward(const at::Tensor& x_BTD) const {
  about_to_run();
  const auto [x, normed] = ln_1_.forward_beside(x_BTD);
  return finish(x, self_attention_.forward(normed, /*is_causal=*/false));
}

at::Tensor EncoderBlock::forward_first(const at::Tensor& x_BTD) const {
  about_to_run();
  const at::Tensor normed_BTD = ln_1_.forward(x_BTD);
  const at::Tensor attended_B1D =
      self_attention_.forward_one_query(normed_BTD.narrow(1, 0, 1), normed_BTD, {}, /*is_causal=*/false);
  return finish(x_BTD.select(1, 0), attended_B1D.squeeze(1));
}

VisionClassifier::VisionClassifier(const config::ClassifierShape& shape, const ClassifierOptions& options)
    : image_pixels_(shape.image_pixels), width_(shape.width),
      class_token_(nn::make_parameter({1, 1, shape.width}, options.tensors)),
      conv_proj_(shape.width, shape.patch_pixels, options.tensors),
      conv_proj_bias_(nn::make_parameter({shape.width}, options.tensors)),
      pos_embedding_(nn::make_parameter({1, shape.num_tokens(), shape.width}, options.tensors)),
      ln_(layer_norm(shape.width, options.tensors)), head_(shape.width, shape.num_classes, options.tensors) {
  register_parameter("class_token", class_token_);
  register_child("conv_proj", conv_proj_);
  register_parameter("conv_proj.bias", conv_proj_bias_);
  register_parameter("encoder.pos_embedding", pos_embedding_);
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    blocks_.push_back(std::make_unique<EncoderBlock>(shape, options.tensors));
    register_child("encoder.layers.encoder_layer_" + std::to_string(layer), *blocks_.back());
  }
  register_child("encoder.ln", ln_);
  register_child("heads.head", head_);
}

at::Tensor VisionClassifier::forward(const at::Tensor& image_BCYX) {
  LOCKSTEP_CHECK(image_BCYX.size(2) == image_pixels_ && image_BCYX.size(3) == image_pixels_,
                 "image {} x {}, expected {}", image_BCYX.size(2), image_BCYX.size(3), image_pixels_);
  const at::Tensor patches_BPD = conv_proj_.forward(image_BCYX, {});
  // Under autocast patches have 16 bits and parameters 32: from here on x has 32, to which the blocks add, as in
  // torchvision.
  const at::Tensor class_B1D = class_token_.expand({image_BCYX.size(0), 1, width_});
  at::Tensor x_BTD = at::cat({class_B1D, patches_BPD.add(conv_proj_bias_)}, 1).add(pos_embedding_);
  for (size_t block = 0; block + 1 < blocks_.size(); ++block) x_BTD = blocks_[block]->forward(x_BTD);
  return head_.forward(ln_.forward(blocks_.back()->forward_first(x_BTD)));  // nothing else reaches the scores
}

}  // namespace lockstep::models
