#pragma once
#include <ATen/core/TensorBody.h>

#include <utility>

namespace lockstep::nn {

/// Whether winograd_conv() may take the place of at::conv2d with stride 1 and padding 1: on a CPU with AVX2, fp32
/// outside autocast, 3x3 filters [O, C, 3, 3], pictures x [B, C, Y, X] with channels last in memory, and so many pixels
/// that transforming the filters does not cost more than it saves.
bool has_winograd_conv(const at::Tensor& x_BCYX, const at::Tensor& weight_OC33);

/// That convolution by minimal filtering, with gradients, which agrees with oneDNN's up to rounding. One core with AVX2
/// does ResNet-50's at 90 to 150 GFLOP/s of plain sums, oneDNN at 72 to 82 forward and 43 to 51 backward. The result
/// has channels last. The bits do not depend on the number of threads.
at::Tensor winograd_conv(const at::Tensor& x_BCYX, const at::Tensor& weight_OC33);

/// Below autograd and autocast: whether the next two compute here, the convolution, and the gradients of x and weight
/// as far as they are needed.
bool has_winograd_kernel(const at::Tensor& x_BCYX, const at::Tensor& weight_OC33);
at::Tensor winograd_forward(const at::Tensor& x_BCYX, const at::Tensor& weight_OC33);
std::pair<at::Tensor, at::Tensor> winograd_backward(const at::Tensor& dout_BOYX, const at::Tensor& x_BCYX,
                                                    const at::Tensor& weight_OC33, bool needs_x, bool needs_weight);

}  // namespace lockstep::nn
