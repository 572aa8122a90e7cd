#pragma once
#include <ATen/core/TensorBody.h>

#include "nn/dropout.h"

namespace lockstep::nn {

/// Does causal_attention_on_cpu() take queries of this type there?
bool has_causal_attention(const at::Device& device, at::ScalarType type);

/// nn::attention() of positions that each see themselves and what is before them, with all gradients: q [B, H, L, K], k
/// and v [B, G, L, K]. Some queries at a time are multiplied with the keys that one of them sees, and their
/// probabilities are kept for the backward pass: config::kept_causal_scores() of them for each head. `dropout` draws as
/// if the probabilities were one tensor [B G, H/G L, L].
at::Tensor causal_attention_on_cpu(const at::Tensor& q_BHLK, const at::Tensor& k_BGLK, const at::Tensor& v_BGLK,
                                   const Dropout& dropout);

}  // namespace lockstep::nn
