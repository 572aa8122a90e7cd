#include "nn/layers.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/silu.h>

namespace lockstep::nn {

at::Tensor make_parameter(at::IntArrayRef shape, const at::TensorOptions& options) {
  return at::empty(shape, options).requires_grad_(true);
}

Linear::Linear(int64_t in, int64_t out, const at::TensorOptions& options, bool with_bias)
    : weight_(make_parameter({out, in}, options)) {
  register_parameter("weight", weight_);
  if (!with_bias) return;
  bias_ = make_parameter({out}, options);
  register_parameter("bias", bias_);
}

at::Tensor Linear::forward(const at::Tensor& x) const { return at::linear(x, weight_, bias_); }

LayerNorm::LayerNorm(int64_t width, const at::TensorOptions& options, double epsilon)
    : weight_(make_parameter({width}, options)), bias_(make_parameter({width}, options)), epsilon_(epsilon) {
  register_parameter("weight", weight_);
  register_parameter("bias", bias_);
}

at::Tensor LayerNorm::forward(const at::Tensor& x) const {
  // The CPU kernel takes mixed types and computes in fp32 either way; the CUDA kernel wants one type.
  const bool mixed = x.scalar_type() != weight_.scalar_type() && !x.is_cpu();
  return at::layer_norm(mixed ? x.to(weight_.scalar_type()) : x, weight_.sizes(), weight_, bias_, epsilon_)
      .to(x.scalar_type());
}

Embedding::Embedding(int64_t rows, int64_t width, const at::TensorOptions& options)
    : weight_(make_parameter({rows, width}, options)) {
  register_parameter("weight", weight_);
}

at::Tensor Embedding::forward(const at::Tensor& ids) const { return at::embedding(weight_, ids); }

LayerScale::LayerScale(int64_t width, const at::TensorOptions& options) : gamma_(make_parameter({width}, options)) {
  register_parameter("gamma", gamma_);
}

at::Tensor LayerScale::forward(const at::Tensor& x) const { return x.mul(gamma_.to(x.scalar_type())); }

at::Tensor activate(const at::Tensor& x, Activation activation) {
  if (activation == Activation::kGelu) return at::gelu(x);
  if (activation == Activation::kGeluTanh) return at::gelu(x, "tanh");
  // x sigmoid(a x) = silu(a x) / a keeps one tensor for the backward pass where the plain form keeps two.
  constexpr double kSlope = 1.702;
  return at::silu(x.mul(kSlope)).mul(1.0 / kSlope);
}

}  // namespace lockstep::nn
