#pragma once
#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>

#include "comm/comm.h"
#include "nn/shard.h"

namespace lockstep::nn::internal {

/// A collective that has been started, and where its result will be.
struct Pending {
  at::Tensor result;
  comm::Work work = {};
  at::Tensor wait() {
    work.wait();
    return result;
  }
};

/// All ranks' parts, along dim 0.
Pending start_gather(const at::Tensor& part, const ShardCtx& shard);
/// The sum of all ranks', or under token splitting this rank's tokens of it. May overwrite `own_partial`, which must be
/// nobody else's.
Pending start_reduction(const at::Tensor& own_partial, const ShardCtx& shard);

/// [..., n] -> [rows, n].
inline at::Tensor as_rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

}  // namespace lockstep::nn::internal
