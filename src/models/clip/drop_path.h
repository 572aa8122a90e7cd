#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>

#include "models/forward_context.h"

namespace lockstep::models {

/// Which samples skip a branch of block `number` of `num_blocks`: more of them the later it is, none at the first, the
/// share `drop_path` at the last (stochastic depth, Huang et al. 2016). Branches that are drawn apart differ in
/// `stream`.
struct DroppedBranch {
  double drop_path = 0.0;
  int64_t number = 0, num_blocks = 1;
  uint64_t stream = 0;
};

/// What the branch is multiplied with, one number a sample, shaped to `dims` dimensions: 0 or 1 / (share that stays).
/// Undefined where all stay.
at::Tensor kept_branch(const DroppedBranch& branch, const at::Tensor& input, int64_t dims,
                       const ForwardContext& context);

}  // namespace lockstep::models
