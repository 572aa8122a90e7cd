#pragma once
#include <ATen/core/TensorBody.h>

#include "nn/dropout.h"

namespace lockstep::nn {

/// Does attention_on_cpu() take queries of this type there?
bool has_cpu_attention(const at::Device& device, at::ScalarType type);

/// nn::attention() without a mask, with all gradients: q [B, H, L, K], k and v [B, G, T, K]. Where it is causal, each
/// position (T = L) sees itself and what is before it: some queries at a time are multiplied with the keys that one of
/// them sees. The probabilities are kept for the backward pass, of causal attention config::kept_causal_scores() of
/// them for each head. `dropout` draws as if the probabilities were one tensor [B G, H/G L, T].
at::Tensor attention_on_cpu(const at::Tensor& q_BHLK, const at::Tensor& k_BGTK, const at::Tensor& v_BGTK,
                            bool is_causal, const Dropout& dropout);

}  // namespace lockstep::nn
