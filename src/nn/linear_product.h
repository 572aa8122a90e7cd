#pragma once
#include <ATen/core/TensorBody.h>

namespace lockstep::nn {

/// x W^t + b, as at::linear. In fp32 on x86 processors that are not Intel's, oneDNN multiplies where nobody asks for
/// gradients: there it runs 1.10 to 1.18 times as fast as MKL, which at::linear calls (Zen 4 server core, AVX-512: 102
/// to 110 against 89 to 95 GFLOP/s with 800 or 1600 rows, widths 512 to 3072). Training stays with at::linear, whose
/// rounding is that of the programs it is compared with.
at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

/// Is this a product that linear_product() gives to oneDNN?
bool prefers_onednn(const at::Tensor& x, const at::Tensor& weight);

}  // namespace lockstep::nn
