#include "nn/norm.h"

#include <ATen/core/Tensor.h>

#include "nn/compute_type.h"
#include "nn/fused_norm.h"
#include "nn/layers.h"

namespace lockstep::nn {

Norm::Norm(config::GptNorm kind, int64_t width, double epsilon, const at::TensorOptions& options)
    : kind_(kind), epsilon_(epsilon), weight_(make_parameter({width}, options)) {
  register_parameter("weight", weight_);
  if (kind == config::GptNorm::kRmsNorm) return;
  bias_ = make_parameter({width}, options);
  register_parameter("bias", bias_);
}

at::Tensor Norm::forward(const at::Tensor& x) const { return layer_norm(x, gain(), bias_, epsilon_, x.scalar_type()); }

std::pair<at::Tensor, at::Tensor> Norm::forward_sum(const at::Tensor& x, const at::Tensor& residual) const {
  return add_layer_norm(x, residual, gain(), bias_, epsilon_, compute_type_of(x));
}

std::pair<at::Tensor, at::Tensor> Norm::forward_beside(const at::Tensor& x) const {
  return layer_norm_beside(x, gain(), bias_, epsilon_, compute_type_of(x));
}

at::Tensor Norm::gain() const { return kind_ == config::GptNorm::kLayerNorm1p ? weight_.add(1) : weight_; }

}  // namespace lockstep::nn
