#pragma once
#include <ATen/core/TensorBody.h>

namespace lockstep::nn {

/// The product of a linear layer whose weights stay as they are, for inference on the CPU: weights and bias converted
/// once to the type of the product and, where oneDNN has one, to its blocked layout; bf16 is computed as Bf16Products
/// do on processors without fast ones. On two cores with AVX-512 and bf16 instructions (768 x 3072, one thread,
/// processor time) at::linear takes 1.13 times as long with 50 rows and more in fp32; in bf16 1.6 times with 8
/// rows, 1.25 with 50, 1.1 with 400.
class PackedLinear {
 public:
  /// What oneDNN does to the result before it is written. kSilu: x sigmoid(x).
  enum class Then { kNothing, kGelu, kSilu };

  PackedLinear() = default;
  /// `weight` [out, in], on the CPU; `bias` may be undefined. Both may change afterwards without effect.
  PackedLinear(const at::Tensor& weight, const at::Tensor& bias, at::ScalarType type);

  at::ScalarType type() const { return type_; }  ///< Of the product.
  bool is_ready() const { return packed_.defined() || plain_.defined(); }
  /// [..., in] -> [..., out], in the type of the product. Without gradients.
  at::Tensor forward(const at::Tensor& x, Then then = Then::kNothing) const;
  /// residual + forward(x), in the type that such a sum has.
  at::Tensor forward_add(const at::Tensor& x, const at::Tensor& residual) const;

 private:
  at::Tensor packed_;        // in oneDNN's layout; undefined: there is none for this type on this processor
  at::Tensor plain_, bias_;  // plain_ where packed_ is undefined
  at::ScalarType type_ = at::kFloat;
  at::ScalarType product_type_ = at::kFloat;  // fp32 for type_ bf16 where that is faster: of bf16 numbers
  int64_t num_out_ = 0;
};

}  // namespace lockstep::nn
