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

/// Do the next two take scores of attention of this type?
bool has_cpu_score_softmax(const at::Device& device, at::ScalarType type);
/// Dense scores [products, rows, keys] become the softmax of `scale` times themselves. Row r of a product is one of
/// query r % queries; with is_causal only keys up to that query count, and the others' places become 0.
void score_softmax_on_cpu(at::Tensor scores, double scale, int64_t queries, bool is_causal);
at::Tensor score_softmax_backward_on_cpu(const at::Tensor& y, const at::Tensor& dy, double scale, int64_t queries,
                                         bool is_causal);

bool suits_cpu_softmax(const at::Tensor& logits_NV);
at::Tensor softmax_stats_on_cpu(const at::Tensor& logits_NV, int64_t used, const at::Tensor& target_N);
void softmax_gradient_on_cpu(at::Tensor logits_NV, int64_t used, const at::Tensor& target_N, const at::Tensor& top_N,
                             const at::Tensor& factor_N, const at::Tensor& weight_N);

}  // namespace lockstep::nn
