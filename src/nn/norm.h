#pragma once
#include <ATen/core/TensorBody.h>

#include <utility>

#include "config/gpt_shape.h"
#include "nn/module.h"

namespace lockstep::nn {

/// The norm of a language model over the last dim: LayerNorm, LayerNorm whose gain is stored minus 1, or RMSNorm.
/// Statistics in fp32 whatever the types of input and weights; the result has the input's type.
class Norm : public Module {
 public:
  Norm(config::GptNorm kind, int64_t width, double epsilon, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;
  /// {x + residual, forward() of that in the type that products compute in}.
  std::pair<at::Tensor, at::Tensor> forward_sum(const at::Tensor& x, const at::Tensor& residual) const;
  /// {x, likewise}: for an x that is used beside its norm (see layer_norm_beside()).
  std::pair<at::Tensor, at::Tensor> forward_beside(const at::Tensor& x) const;

 private:
  at::Tensor gain() const;

  config::GptNorm kind_;
  double epsilon_;
  at::Tensor weight_, bias_;  // an RMSNorm has no bias
};

}  // namespace lockstep::nn
