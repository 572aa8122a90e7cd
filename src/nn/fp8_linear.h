#pragma once
#include <ATen/core/TensorBody.h>

#include "nn/fp8_state.h"
#include "nn/shard.h"

namespace lockstep::nn {

/// Which dim of its weight the ranks of a ShardCtx share.
enum class Fp8Split { kColumn, kRow };

/// enter_shared(x) w^t + bias (kColumn) or leave_shared(x w^t) + bias (kRow; either bias may be undefined) with all
/// three products, y = x w^t, dx = dy w and dw = dy^t x, of operands in 8 bits; results have the type of x, dw that of
/// w. Keeps x in 8 bits for the backward pass, and gathers in 8 bits. `weight` is [out, in], possibly a view of a
/// parameter; `layer` outlives the graph.
at::Tensor fp8_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, Fp8Linear& layer,
                      const ShardCtx& shard, Fp8Split split);

}  // namespace lockstep::nn
