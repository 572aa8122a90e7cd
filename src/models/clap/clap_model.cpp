#include "models/clap/clap_model.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

namespace lockstep::models {

ClapModel::ClapModel(const config::ClapShape& shape, const ClapModelOptions& options)
    : shape_(shape), specs_(config::clap_param_specs(shape)), audio_(shape.audio, options.tensors),
      audio_projection_(shape.audio.feature_width(), shape.embed_dim, shape.audio_projection, options.tensors),
      text_(shape.text, options.exact_shortcuts, options.tensors),
      text_projection_(shape.text.width, shape.embed_dim, shape.text_projection, options.tensors),
      logit_scale_a_(nn::make_parameter({}, options.tensors)) {
  register_child("audio_branch", audio_);
  register_child("audio_projection", audio_projection_);
  if (shape.has_transforms) carry_transform("audio_transform", audio_transform_, options.tensors);
  register_child("text_branch", text_);
  register_child("text_projection", text_projection_);
  if (shape.has_transforms) carry_transform("text_transform", text_transform_, options.tensors);
  register_parameter("logit_scale_a", logit_scale_a_);
  if (shape.has_transforms) {
    logit_scale_t_ = at::empty({}, options.tensors);
    register_buffer("logit_scale_t", logit_scale_t_);
  }
  audio_.set_checkpointing(options.grad_checkpointing);
  text_.set_checkpointing(options.grad_checkpointing);
  audio_.synchronize_batch_norm(options.batch_norm_ranks);
}

void ClapModel::carry_transform(const std::string& name, Transform& transform, const at::TensorOptions& options) {
  const int64_t width = shape_.embed_dim;
  transform = {at::empty({width, width}, options), at::empty({width}, options), at::empty({width, width}, options),
               at::empty({width}, options)};
  register_buffer(name + ".sequential.0.weight", transform.weight_0);
  register_buffer(name + ".sequential.0.bias", transform.bias_0);
  register_buffer(name + ".sequential.3.weight", transform.weight_3);
  register_buffer(name + ".sequential.3.bias", transform.bias_3);
}

at::Tensor ClapModel::encode_audio(const at::Tensor& audio_BS) {
  return audio_projection_.forward(audio_.forward(audio_BS, context()));
}

at::Tensor ClapModel::encode_text(const at::Tensor& text_BT) {
  return text_projection_.forward(text_.forward(text_BT, context()));
}

}  // namespace lockstep::models
