#include "models/projection.h"

#include <ATen/core/Tensor.h>

namespace lockstep::models {

Projection::Projection(int64_t in, int64_t out, const config::ProjectionShape& shape, const at::TensorOptions& options)
    : shape_(shape) {
  using Kind = config::ProjectionShape::Kind;
  if (shape.kind == Kind::kNone) return;
  if (shape.kind == Kind::kLinear) {
    register_child("", first_.emplace(in, out, options, shape.has_bias));
    return;
  }
  register_child("0", first_.emplace(in, shape.hidden, options, shape.has_bias));
  register_child("2", second_.emplace(shape.hidden, out, options, shape.has_bias));
}

at::Tensor Projection::forward(const at::Tensor& x) const {
  if (!first_) return x;
  const at::Tensor hidden = first_->forward(x);
  if (!second_) return hidden;
  return second_->forward(shape_.is_relu ? hidden.relu() : nn::activate(hidden, nn::Activation::kGelu));
}

}  // namespace lockstep::models
