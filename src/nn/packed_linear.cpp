#include "nn/packed_linear.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/silu.h>

#include "core/error.h"
#include "nn/bf16_products.h"
#include "nn/onednn.h"

namespace lockstep::nn {

PackedLinear::PackedLinear(const at::Tensor& weight, const at::Tensor& bias, at::ScalarType type)
    : type_(type), product_type_(type), num_out_(weight.size(0)) {
  LOCKSTEP_CHECK(weight.is_cpu() && weight.dim() == 2, "device={} dims={}", weight.device().str(), weight.dim());
  if (type == at::kBFloat16 && !has_fast_bf16_products()) product_type_ = at::kFloat;
  const at::Tensor weight_of_type = weight.detach().to(type).to(product_type_).contiguous();
  packed_ = onednn_packed(weight_of_type);
  if (!packed_.defined()) plain_ = weight_of_type;
  if (bias.defined()) bias_ = bias.detach().to(type).to(product_type_);
}

at::Tensor PackedLinear::forward(const at::Tensor& x, Then then) const {
  const at::Tensor input = x.to(type_).to(product_type_);
  if (input.numel() == 0) {  // oneDNN refuses it
    auto sizes = input.sizes().vec();
    sizes.back() = num_out_;
    return at::empty(sizes, x.options().dtype(type_));
  }
  if (!packed_.defined()) {
    const at::Tensor y = at::linear(input, plain_, bias_);
    return (then == Then::kGelu ? at::gelu(y) : then == Then::kSilu ? at::silu(y) : y).to(type_);
  }
  const char* name = then == Then::kGelu ? "gelu" : then == Then::kSilu ? "swish" : "none";
  return onednn_linear(input, packed_, bias_, name, then == Then::kGelu ? "none" : "").to(type_);
}

at::Tensor PackedLinear::forward_add(const at::Tensor& x, const at::Tensor& residual) const {
  if (!packed_.defined() || residual.scalar_type() != type_ || x.numel() == 0) return residual.add(forward(x));
  return onednn_linear_add(x.to(type_).to(product_type_), residual.to(product_type_), packed_, bias_).to(type_);
}

}  // namespace lockstep::nn
