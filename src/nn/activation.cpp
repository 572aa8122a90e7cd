#include "nn/activation.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/silu.h>

namespace lockstep::nn {

at::Tensor activate(const at::Tensor& x, Activation activation) {
  if (activation == Activation::kGelu) return at::gelu(x);
  if (activation == Activation::kGeluTanh) return at::gelu(x, "tanh");
  // x sigmoid(a x) = silu(a x) / a keeps one tensor for the backward pass where the plain form keeps two.
  return at::silu(x.mul(kQuickGeluSlope)).mul(1.0 / kQuickGeluSlope);
}

}  // namespace lockstep::nn
