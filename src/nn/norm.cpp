#include "nn/norm.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rms_norm.h>

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
  const auto type = x.scalar_type();
  if (kind_ == config::GptNorm::kRmsNorm) return at::rms_norm(x, weight_.sizes(), weight_.to(type), epsilon_);
  const at::Tensor gain = kind_ == config::GptNorm::kLayerNorm1p ? weight_.add(1) : weight_;
  // The CPU kernel takes mixed types and computes in fp32 either way; the CUDA kernel wants one type.
  const bool is_mixed = type != gain.scalar_type() && !x.is_cpu();
  return at::layer_norm(is_mixed ? x.to(gain.scalar_type()) : x, weight_.sizes(), gain, bias_, epsilon_).to(type);
}

}  // namespace lockstep::nn
