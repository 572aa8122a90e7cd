#include "nn/layers.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include "nn/bias_activation.h"
#include "nn/compute_type.h"
#include "nn/fused_norm.h"
#include "nn/product.h"

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

at::Tensor Linear::forward(const at::Tensor& x) const {
  return is_usable(packed_) ? packed_.forward(x) : linear_layer(x, weight_, bias_);
}

at::Tensor Linear::forward_activated(const at::Tensor& x, Activation activation) const {
  return is_usable(packed_) ? activate(packed_.forward(x), activation)
                            : linear_activation_layer(x, weight_, bias_, activation);
}

void Linear::prepare_inference(std::optional<at::ScalarType> type) {
  packed_ = pack_where_possible(weight_, bias_, type);
}

PackedLinear pack_where_possible(const at::Tensor& weight, const at::Tensor& bias, std::optional<at::ScalarType> type) {
  return type && weight.is_cpu() ? PackedLinear(weight, bias, *type) : PackedLinear();
}

bool is_usable(const PackedLinear& packed) { return packed.is_ready() && !c10::GradMode::is_enabled(); }

bool is_faster(const PackedLinear& packed, const at::Tensor& x) {
  constexpr int64_t kLeastRows = 4;
  return is_usable(packed) && (packed.type() != at::kFloat || x.numel() >= kLeastRows * x.size(-1));
}

LayerNorm::LayerNorm(int64_t width, const at::TensorOptions& options, double epsilon)
    : weight_(make_parameter({width}, options)), bias_(make_parameter({width}, options)), epsilon_(epsilon) {
  register_parameter("weight", weight_);
  register_parameter("bias", bias_);
}

at::Tensor LayerNorm::forward(const at::Tensor& x) const {
  return layer_norm(x, weight_, bias_, epsilon_, x.scalar_type());
}

std::pair<at::Tensor, at::Tensor> LayerNorm::forward_sum(const at::Tensor& x, const at::Tensor& residual) const {
  return add_layer_norm(x, residual, weight_, bias_, epsilon_, compute_type_of(x));
}

std::pair<at::Tensor, at::Tensor> LayerNorm::forward_beside(const at::Tensor& x) const {
  return layer_norm_beside(x, weight_, bias_, epsilon_, compute_type_of(x));
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

}  // namespace lockstep::nn
