#pragma once
#include <ATen/core/TensorBody.h>

#include <vector>

#include "nn/dropout.h"
#include "nn/layers.h"
#include "nn/module.h"

namespace lockstep::nn {

/// softmax(q k^t / sqrt(K) + mask) v with q [B, H, L, K], k and v [B, H, T, K], in the fastest exact form for device,
/// type and length (see attention.cpp). `mask`, where defined, broadcasts to [B, H, L, T], has q's type and may need a
/// gradient. `is_causal` (L = T, no mask) lets position i see 0..i. `dropout` applies to the probabilities: without
/// `rows` a fused kernel of a device may draw it, from that device's own generator, whose seed becomes the key. k and v
/// may have fewer heads G, a divisor of H (grouped queries): heads i H/G to (i + 1) H/G - 1 of q share head i of k and
/// v.
at::Tensor attention(const at::Tensor& q_BHLK, const at::Tensor& k_BHTK, const at::Tensor& v_BHTK,
                     const at::Tensor& mask, bool is_causal, const Dropout& dropout = {});

/// Parts of x along `dim`, of so many entries each; their gradients are written side by side in one pass, where views
/// would each have a tensor of x's size, and a sum of those.
std::vector<at::Tensor> split_apart(const at::Tensor& x, int64_t dim, at::IntArrayRef sizes);

/// Queries, keys and values (`parts` of them) of heads that lie side by side, [B, T, parts H K]: each [B, H, T, K].
std::vector<at::Tensor> split_heads(const at::Tensor& x, int64_t parts, int64_t heads);

/// -inf where position i may not see j > i, else 0: [T, T].
at::Tensor causal_mask(int64_t length, const at::TensorOptions& options);

/// Self attention with one fused projection for queries, keys and values (PyTorch's nn.MultiheadAttention layout).
class MultiHeadAttention : public Module {
 public:
  MultiHeadAttention(int64_t width, int64_t heads, const at::TensorOptions& options);
  /// `mask` as of attention(); where it is defined it says everything, is_causal nothing.
  at::Tensor forward(const at::Tensor& x_BTD, bool is_causal, const at::Tensor& mask = {}) const;
  /// Only row query_x_B1D of each sample, given with its position: [B, 1, D]. `position_B` (int64) is needed with
  /// is_causal.
  at::Tensor forward_one_query(const at::Tensor& query_x_B1D, const at::Tensor& x_BTD, const at::Tensor& position_B,
                               bool is_causal) const;
  at::ScalarType parameter_type() const { return in_proj_weight_.scalar_type(); }
  void prepare_inference(std::optional<at::ScalarType> type) override;

 private:
  at::Tensor in_proj_weight_, in_proj_bias_;
  Linear out_proj_;
  PackedLinear packed_in_;
  /// The same apart, for forward_one_query(): made by its first call, since most layers never get one.
  mutable PackedLinear packed_query_, packed_key_value_;
  int64_t heads_;
};

/// Attention of queries to another sequence (PyTorch's nn.MultiheadAttention layout: one weight for queries, keys and
/// values where both sequences have one width, else three).
class CrossAttention : public Module {
 public:
  CrossAttention(int64_t width, int64_t heads, int64_t context_width, const at::TensorOptions& options);
  /// query_BLD with keys and values from context_BTC: [B, L, D].
  at::Tensor forward(const at::Tensor& query_BLD, const at::Tensor& context_BTC) const;

 private:
  at::Tensor in_proj_weight_, q_proj_weight_, k_proj_weight_, v_proj_weight_, in_proj_bias_;
  Linear out_proj_;
  int64_t heads_;
};

/// A fixed number of learned queries that attend to a sequence of any length, both normalised first (CoCa, Yu et al.
/// 2022).
class AttentionalPooler : public Module {
 public:
  AttentionalPooler(int64_t num_queries, int64_t width, int64_t heads, int64_t context_width, double norm_epsilon,
                    const at::TensorOptions& options);
  /// [B, T, C] -> [B, Q, D] of the first Q queries.
  at::Tensor forward(const at::Tensor& x_BTC, int64_t num_queries) const;
  int64_t num_queries() const { return query_.size(0); }

 private:
  at::Tensor query_;
  CrossAttention attn_;
  LayerNorm ln_q_, ln_k_;
};

}  // namespace lockstep::nn
