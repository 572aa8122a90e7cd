#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <vector>

#include "comm/comm.h"

namespace lockstep::bench {

/// The values that rank `rank` sends: whole numbers from -1 to 1 that look random, a function of (rank, index, call)
/// only. Sums over up to 128 ranks are exact in every type.
void fill_values(const at::Tensor& tensor, int rank, int64_t first_index, int64_t call);

/// A run of received elements and where they come from: element k is the reduction, over the source ranks, of their
/// values at `source_index` + k.
struct ExpectedRun {
  int64_t offset = 0, count = 0;  ///< In the received tensor.
  int first_rank = 0, num_ranks = 1;
  int64_t source_index = 0;
};

/// Elements of the flat tensor `received` that are not what the runs say. NaN is wrong. Results of reductions may
/// differ by the rounding of their type where it is not exact.
int64_t count_wrong(const at::Tensor& received, const std::vector<ExpectedRun>& runs, comm::ReduceOp op, int64_t call);

}  // namespace lockstep::bench
