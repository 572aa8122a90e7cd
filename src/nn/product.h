#pragma once
#include <ATen/core/TensorBody.h>

namespace lockstep::nn {

/// a [N, K] times b [K, M]: at::mm, or oneDNN's product where that is faster: large fp32 products on a CPU of another
/// maker than Intel. On a Zen 4 core MKL, which LibTorch calls, takes 1.07 to 1.39 times as long
/// (bench/results/fp32_products_cpu.json). Without gradients; both agree up to rounding.
at::Tensor product(const at::Tensor& a_NK, const at::Tensor& b_KM);
/// The same into `out_NM`, which may be a part of another tensor.
void product_into(at::Tensor out_NM, const at::Tensor& a_NK, const at::Tensor& b_KM);

/// sum += the product, or sum = it where `is_new`. On GPUs one kernel, also where the sum is fp32 and the factors are
/// not; where the factors are of another type than the sum, on the CPU, the product is rounded to their type before.
void add_product(at::Tensor sum_NM, const at::Tensor& a_NK, const at::Tensor& b_KM, bool is_new);

/// at::linear by such products, forward and backward: x [..., in] times the transpose of weight [out, in], plus bias
/// [out] where it is defined. A weight [..., in] is one of as many rows as it has. The gradient of a weight goes where
/// its sink wants it (nn/gradient_sink.h).
at::Tensor linear_layer(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace lockstep::nn
