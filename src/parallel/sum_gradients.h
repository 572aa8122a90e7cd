#pragma once
#include <vector>

#include "comm/comm.h"
#include "comm/named_tensor.h"

namespace lockstep::parallel {

/// Sums the gradients of parameters that all ranks of a group hold and each of which knows a part: those whose ParamSpec says
/// is_partial_over_tokens over the tensor ranks that split tokens, a tied embedding over the stages that hold it. After the data axis's
/// reduction, in one all-reduce for each type; every parameter must have a gradient. Blocks on the CPU as Work::wait() does.
void sum_gradients(const std::vector<comm::NamedTensor>& parameters, comm::Comm& group);

}  // namespace lockstep::parallel
