#pragma once
#include <ATen/core/TensorBody.h>

#include "nn/shard.h"

namespace lockstep::nn {

struct VocabLossOptions {
  int64_t vocab = 0;  ///< Rows of the whole table that are tokens; the rest is padding and takes no part.
  /// Tokens whose logits exist at a time; 0: as many as fill a quarter of a GiB.
  int64_t chunk_tokens = 0;
  /// Compute gradients while the logits exist, which saves a second product with the table and keeps one gradient of
  /// the table until the backward pass; false: compute the logits again there. 16-bit "half" always does the latter:
  /// there gradients must be multiplied by the loss scale before they are rounded.
  bool early_gradients = true;
};

struct VocabLoss {
  at::Tensor sum;        ///< 0-dim, of weight x loss over the tokens; differentiable.
  at::Tensor per_token;  ///< [N], without weights, detached. fp32 (fp64 for fp64 input).
};

/// Cross entropy of softmax(x W^t) where rank r of R holds rows [r V/R, (r+1) V/R) of W. No rank ever holds logits of
/// another's rows, nor those of more than a chunk of tokens. One all-gather of three numbers per token and rank for
/// each chunk. x is inside the shared part (see tensor_parallel.h): all tokens, its gradient this rank's part of a sum.
/// `weight_N` (undefined: ones) is the loss mask. Statistics in fp32 or wider; the product in autocast's type where
/// that is on.
VocabLoss vocab_cross_entropy(const at::Tensor& x_ND, const at::Tensor& table_VD, const at::Tensor& target_N,
                              const at::Tensor& weight_N, const VocabLossOptions& options, const ShardCtx& shard);

}  // namespace lockstep::nn
