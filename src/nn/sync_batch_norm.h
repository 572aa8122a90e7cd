#pragma once
#include <ATen/core/TensorBody.h>

#include "comm/comm.h"

namespace lockstep::nn {

/// Running statistics to update in place; undefined tensors: none.
struct RunningStatistics {
  at::Tensor mean_C, var_C;
  double momentum = 0.1;
};

/// Batch norm whose statistics are those of the ranks' inputs joined; ranks may hold different numbers of samples. One
/// all-gather of 2C + 1 numbers forward, one all-reduce of 2C backward. Gradients: of the input, of the sum over ranks
/// of their losses; of weight and bias, this rank's part (the data axis adds them up).
at::Tensor sync_batch_norm(const at::Tensor& x_BCYX, const at::Tensor& weight_C, const at::Tensor& bias_C,
                           const RunningStatistics& running, double epsilon, comm::Comm& comm);

}  // namespace lockstep::nn
