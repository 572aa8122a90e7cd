#pragma once
#include <ATen/core/TensorBody.h>

#include "nn/shard.h"

namespace lockstep::nn {

// The two ends of what the ranks of a ShardCtx compute together, each with its gradient. Tokens lie along dim 0.
// Without token splitting every rank holds all tokens outside; with it, rank r of R holds tokens [r T/R, (r+1) T/R). On
// one rank all are the identity. Inside, results differ from rank to rank and gradients with respect to the input are
// parts of a sum.

/// Into the shared part: all tokens on every rank. Forward nothing or all-gather; backward all-reduce or
/// reduce-scatter.
at::Tensor enter_shared(const at::Tensor& x, const ShardCtx& shard);

/// Out of it: the sum over the ranks. Forward all-reduce or reduce-scatter; backward nothing or all-gather.
at::Tensor leave_shared(const at::Tensor& partial, const ShardCtx& shard);

/// enter_shared(x) w^t + b in one piece. Keeps x as it came (under token splitting the rank's own tokens) for the
/// backward pass and gathers it again there while the gradient of the input is computed; the reduction of that gradient
/// travels while the gradient of w is computed. w is [out, in] or [..., in], b undefined or [out]; all of one type.
at::Tensor column_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const ShardCtx& shard);

}  // namespace lockstep::nn
