#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>

#include "comm/comm.h"

namespace lockstep::models {

// Letters: B pairs on this rank, N = B x data ranks pairs in all, E shared embedding.

struct ContrastiveLossOptions {
  /// Of --local-loss x --gather-with-grad only {true, false} is special: the gathered keys, the own slice among them,
  /// carry no gradient, as in OpenCLIP. The other three give the exact gradient of the global-batch loss and are one
  /// computation.
  bool local_loss = false;
  bool gather_with_grad = false;
  /// Logits held at a time, of both directions together. A loss whose logits fit keeps them for the backward pass, a
  /// larger one recomputes them tile by tile.
  int64_t logit_bytes = int64_t{64} << 20;

  bool is_biased(int num_ranks) const { return local_loss && !gather_with_grad && num_ranks > 1; }
};

struct ContrastiveLoss {
  at::Tensor loss;  ///< To differentiate, fp32: its gradients averaged over the data axis are those of `global_loss`
                    ///< (or, if biased, as written).
  at::Tensor global_loss;  ///< To report: mean over all N pairs, the same bits on every rank, detached.
};

/// Symmetric cross-entropy 1/2 [CE(s I T^t) + CE(s T I^t)] of the pairs of all data ranks; softmax and sums in fp32.
///
/// image_BE, text_BE: L2-normalised features, equal B on all ranks. logit_scale: s itself (exp of the parameter), one
/// element. logit_bias may be undefined; one constant added to all logits cancels in a softmax, so it changes nothing
/// and its gradient is exactly zero.
///
/// Two all-gathers forward (features of both towers in one; then log-sum-exps and losses, 2 B + 1 numbers) and none
/// backward: with the log-sum-exps of all rows each rank computes the whole gradient of its own features (4 products of
/// B x N x E instead of 6, no reduce-scatter). All ranks must differentiate with the same factor. The N x N matrix
/// never exists: extra memory is O(N E) for the gathered features and `logit_bytes`.
ContrastiveLoss contrastive_loss(const at::Tensor& image_BE, const at::Tensor& text_BE, const at::Tensor& logit_scale,
                                 const at::Tensor& logit_bias, comm::Comm& data_axis,
                                 const ContrastiveLossOptions& options);

}  // namespace lockstep::models
