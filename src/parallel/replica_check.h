#pragma once
#include <vector>

#include "comm/comm.h"
#include "comm/named_tensor.h"

namespace lockstep::parallel {

/// Compares a hash of every parameter over the ranks of `data_axis`, which all hold copies. A difference throws
/// CommError on every rank that names the ranks that are not with the majority and the first parameter in which they
/// differ. Collective; copies parameters to the host one at a time and blocks.
void check_replicas(const std::vector<comm::NamedTensor>& parameters, comm::Comm& data_axis);

}  // namespace lockstep::parallel
