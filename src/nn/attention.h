#pragma once
#include <ATen/core/TensorBody.h>

#include "nn/dropout.h"
#include "nn/layers.h"
#include "nn/module.h"

namespace lockstep::nn {

/// softmax(q k^t / sqrt(K) + mask) v with q [B, H, L, K], k and v [B, H, T, K], in the fastest exact form for device,
/// type and length (see attention.cpp). `mask`, where defined, broadcasts to [B, H, L, T], holds 0 and -inf and has q's
/// type. `is_causal` (L = T, no mask) lets position i see 0..i. `dropout` applies to the probabilities. k and v may
/// have fewer heads G, a divisor of H (grouped queries): heads i H/G to (i + 1) H/G - 1 of q share head i of k and v.
at::Tensor attention(const at::Tensor& q_BHLK, const at::Tensor& k_BHTK, const at::Tensor& v_BHTK,
                     const at::Tensor& mask, bool is_causal, const Dropout& dropout = {});

/// -inf where position i may not see j > i, else 0: [T, T].
at::Tensor causal_mask(int64_t length, const at::TensorOptions& options);

/// Self attention with one fused projection for queries, keys and values (PyTorch's nn.MultiheadAttention layout).
class MultiHeadAttention : public Module {
 public:
  MultiHeadAttention(int64_t width, int64_t heads, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BTD, bool is_causal) const;
  /// Only row query_x_B1D of each sample, given with its position: [B, 1, D]. `position_B` (int64) is needed with
  /// is_causal.
  at::Tensor forward_one_query(const at::Tensor& query_x_B1D, const at::Tensor& x_BTD, const at::Tensor& position_B,
                               bool is_causal) const;

 private:
  at::Tensor in_proj_weight_, in_proj_bias_;
  Linear out_proj_;
  int64_t heads_;
};

}  // namespace lockstep::nn
