#pragma once
#include <ATen/core/TensorBody.h>

namespace lockstep::nn {

/// Whether winograd_conv() may take the place of at::conv2d with stride 1 and padding 1: on a CPU with AVX2, fp32
/// outside autocast, 3x3 filters [O, C, 3, 3], pictures x [B, C, Y, X] with channels last in memory, and so many pixels
/// that transforming the filters does not cost more than it saves.
bool has_winograd_conv(const at::Tensor& x_BCYX, const at::Tensor& weight_OC33);

/// That convolution by minimal filtering, with gradients: 1.4 to 2.1 times as fast as oneDNN's here
/// (bench/results/winograd_conv_cpu.json); both agree up to rounding. The result has channels last. The bits do not
/// depend on the number of threads.
at::Tensor winograd_conv(const at::Tensor& x_BCYX, const at::Tensor& weight_OC33);

}  // namespace lockstep::nn
