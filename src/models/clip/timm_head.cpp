#include "models/clip/timm_head.h"

#include <ATen/core/Tensor.h>

namespace lockstep::models {

TimmHead::TimmHead(int64_t in, int64_t out, const config::ProjectionShape& shape, const at::TensorOptions& options) {
  using Kind = config::ProjectionShape::Kind;
  if (shape.kind == Kind::kLinear) register_child("proj", proj_.emplace(in, out, options, shape.has_bias));
  if (shape.kind != Kind::kMlp) return;
  register_child("mlp.fc1", fc1_.emplace(in, shape.hidden, options));
  register_child("mlp.fc2", fc2_.emplace(shape.hidden, out, options, shape.has_bias));
}

at::Tensor TimmHead::forward(const at::Tensor& x) const {
  if (fc1_) return fc2_->forward(nn::activate(fc1_->forward(x), nn::Activation::kGelu));
  return proj_ ? proj_->forward(x) : x;
}

}  // namespace lockstep::models
