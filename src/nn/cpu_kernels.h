#pragma once
#include <ATen/core/TensorBody.h>

#include "nn/activation.h"
#include "nn/gpu_kernels.h"

namespace lockstep::nn {

// Own kernels of the CPU, without gradients: in fp32, of dense fp32 or bf16 tensors, in fewer passes over memory and
// with fewer roundings to 16 bits than the tensor library's operators, which callers take where suits_...() says no.
// Each computes what the one of that name in gpu_kernels.h does.

/// Does activate_biased() add the bias in the kernel of this activation? Exact GELU is the tensor library's.
bool has_cpu_bias_activation(Activation activation);
/// bias [W] of any type.
bool suits_cpu_bias_activation(const at::Tensor& x, const at::Tensor& bias, Activation activation);
at::Tensor bias_activation_on_cpu(const at::Tensor& x, const at::Tensor& bias, Activation activation);
ActivationGradients bias_activation_backward_on_cpu(const at::Tensor& x, const at::Tensor& bias, Activation activation,
                                                    const at::Tensor& dy);

/// Of dense scores [P, rows, keys], fp32 or bf16, whose row r is one of query first_query + r % (keys - first_query),
/// for which the keys up to that query count: they become the softmax of `scale` times themselves, and 0 where a key
/// does not count.
void causal_softmax_on_cpu(at::Tensor scores, double scale, int64_t first_query);
/// dy, the gradient of what that gave (y), becomes the gradient of the scores.
void causal_softmax_backward_on_cpu(const at::Tensor& y, at::Tensor dy, double scale, int64_t first_query);

bool suits_cpu_softmax(const at::Tensor& logits_NV);
at::Tensor softmax_stats_on_cpu(const at::Tensor& logits_NV, int64_t used, const at::Tensor& target_N);
void softmax_gradient_on_cpu(at::Tensor logits_NV, int64_t used, const at::Tensor& target_N, const at::Tensor& top_N,
                             const at::Tensor& factor_N, const at::Tensor& weight_N);

}  // namespace lockstep::nn
