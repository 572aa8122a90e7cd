#pragma once
#include <ATen/core/TensorBody.h>

#include <vector>

#include "comm/comm.h"

namespace lockstep::parallel {

/// Sums, in place, gradients of parameters that all ranks of a group hold and of which each knows a part: those whose
/// ParamSpec says is_partial_over_tokens over the tensor ranks that split tokens, a tied embedding over the stages that
/// hold it. After the data axis's reduction, in one all-reduce for each type; nothing is sent where there are none.
/// Blocks on the CPU as Work::wait() does.
void sum_gradients(const std::vector<at::Tensor>& gradients, comm::Comm& group);

}  // namespace lockstep::parallel
