#pragma once
#include <ATen/core/TensorBody.h>

namespace lockstep::nn {

/// Whether pointwise_conv() may take the place of at::conv2d without padding: for a gradient on a CPU, in fp32 or bf16,
/// of filters [O, C, 1, 1] and pictures x [B, C, Y, X] with channels last in memory.
bool has_pointwise_conv(const at::Tensor& x_BCYX, const at::Tensor& weight_OC11);

/// at::conv2d of single pixels, each `stride`-th of a row and of a column, whose gradients are matrix products. Agrees
/// with it up to rounding. oneDNN's convolutions backward take 1.5 times as long for the filters' gradients of a
/// ResNet-50 in bf16, 1.2 times in fp32 (bench/results/pointwise_gradients_cpu.json). The gradient of the filters goes
/// where its sink wants it (nn/gradient_sink.h).
at::Tensor pointwise_conv(const at::Tensor& x_BCYX, const at::Tensor& weight_OC11, int64_t stride);

/// The same, and x for its other uses. The convolution adds its share to their gradient where that lies, which saves
/// autograd the sum of two gradients.
struct ConvAndInput {
  at::Tensor y_BOYX, x_BCYX;
};
ConvAndInput pointwise_conv_and_input(const at::Tensor& x_BCYX, const at::Tensor& weight_OC11, int64_t stride);

}  // namespace lockstep::nn
