#pragma once
#include <ATen/core/TensorBody.h>

#include "nn/sync_batch_norm.h"

namespace lockstep::nn {

/// True where fused_batch_norm takes x: fp32 or bf16 on the CPU, channels-last, its channels a multiple of 16, with
/// parameters and running statistics in fp32.
bool has_fused_batch_norm(const at::Tensor& x_BCYX, const at::Tensor& weight_C);

/// Batch norm in training with what follows it in a residual network, in two passes over memory: x by the statistics
/// of the micro-batch, plus `residual` where it is defined (same type and layout as x), then ReLU if has_relu. With
/// gradients; updates the running statistics. ATen takes four passes and keeps one tensor more.
at::Tensor fused_batch_norm(const at::Tensor& x_BCYX, const at::Tensor& weight_C, const at::Tensor& bias_C,
                            const at::Tensor& residual_BCYX, bool has_relu, const RunningStatistics& running,
                            double epsilon);

}  // namespace lockstep::nn
