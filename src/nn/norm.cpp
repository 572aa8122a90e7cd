#include "nn/norm.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/rms_norm.h>

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

at::Tensor Norm::forward(const at::Tensor& x) const {
  if (kind_ == config::GptNorm::kRmsNorm)
    return at::rms_norm(x, weight_.sizes(), weight_.to(x.scalar_type()), epsilon_);
  const at::Tensor gain = kind_ == config::GptNorm::kLayerNorm1p ? weight_.add(1) : weight_;
  return layer_norm(x, gain, bias_, epsilon_);
}

}  // namespace lockstep::nn
