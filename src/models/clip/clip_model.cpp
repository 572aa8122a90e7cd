#include "models/clip/clip_model.h"

#include <ATen/core/Tensor.h>

#include "config/image_towers.h"
#include "nn/layers.h"

namespace lockstep::models {
ClipModel::ClipModel(const config::ClipShape& shape, const ClipModelOptions& options)
    : shape_(shape), specs_(config::clip_param_specs(shape)),
      visual_(config::with_tower(shape.vision, [&](auto tower) { return tower.build(shape, options); })),
      text_(shape, options.exact_shortcuts, options.tensors) {
  const std::vector<int64_t> scalar = shape.nonscalar_logit_scale ? std::vector<int64_t>{1} : std::vector<int64_t>{};
  logit_scale_ = nn::make_parameter(scalar, options.tensors);
  register_child("visual", *visual_);
  register_child("", text_);  // OpenCLIP names the text tower's parameters without a prefix
  register_parameter("logit_scale", logit_scale_);
  if (shape.init_logit_bias) {
    logit_bias_ = nn::make_parameter(scalar, options.tensors);
    register_parameter("logit_bias", logit_bias_);
  }
  visual_->set_checkpointing(options.grad_checkpointing);
  text_.set_checkpointing(options.grad_checkpointing);
  visual_->synchronize_batch_norm(options.batch_norm_ranks);
  if (options.freezes_batch_norm) visual_->freeze_batch_norm();
}

at::Tensor ClipModel::encode_image(const at::Tensor& image_BCYX) { return visual_->forward(image_BCYX, context()); }

at::Tensor ClipModel::encode_text(const at::Tensor& text_BT) { return text_.forward(text_BT); }

}  // namespace lockstep::models
