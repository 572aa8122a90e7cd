#pragma once
#include <ATen/core/TensorBody.h>

#include <string_view>

namespace lockstep::nn {

/// oneDNN's inner product through LibTorch's operators for its own compiler: x [..., in] times `weight` [out, in] or
/// what onednn_packed() made of it, plus `bias` (may be undefined), then `attribute` ("none", "gelu" with the algorithm
/// "none", "swish"). No gradients. x has at least one number.
at::Tensor onednn_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                         std::string_view attribute = "none", std::string_view algorithm = "");
/// The same plus `residual`, which has the shape and type of the result.
at::Tensor onednn_linear_add(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
                             const at::Tensor& bias);
/// A weight in oneDNN's blocked layout; undefined where this processor has none for the type, or LibTorch no oneDNN.
at::Tensor onednn_packed(const at::Tensor& weight);

}  // namespace lockstep::nn
