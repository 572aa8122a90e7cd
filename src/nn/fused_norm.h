#pragma once
#include <ATen/core/TensorBody.h>

#include <utility>

namespace lockstep::nn {

/// Layer norm over the last dim with own kernels where everything is fp32 on the CPU and there are some thousand
/// numbers, else by ATen; with gradients. Statistics in fp32; the result has x's type.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias, double epsilon);

/// {x + residual, layer_norm of that} in one pass over memory; likewise.
std::pair<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& x, const at::Tensor& residual,
                                                 const at::Tensor& gain, const at::Tensor& bias, double epsilon);

}  // namespace lockstep::nn
