#pragma once
#include <ATen/core/TensorBody.h>

#include <utility>

namespace lockstep::nn {

// Without a bias (an undefined one) each is an RMSNorm, which subtracts no mean.

/// Layer norm over the last dim with gradients: with own kernels on GPUs, and on the CPU where everything is fp32 and
/// there are some thousand numbers, else by ATen. Statistics in fp32; the result is rounded to `type` at the end.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias, double epsilon,
                      at::ScalarType type);

/// {x + residual, layer_norm of that} in one pass over memory; likewise.
std::pair<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& x, const at::Tensor& residual,
                                                 const at::Tensor& gain, const at::Tensor& bias, double epsilon,
                                                 at::ScalarType type);

/// {x, layer_norm of x}: who uses the first beside the second lets the backward pass add its gradient in the same pass.
std::pair<at::Tensor, at::Tensor> layer_norm_beside(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias,
                                                    double epsilon, at::ScalarType type);

}  // namespace lockstep::nn
