#pragma once
#include <ATen/core/TensorBody.h>

#include <vector>

#include "comm/comm.h"

namespace lockstep::optim {

/// Square of the L2 norm of all tensors together: 0-dim fp64 on their device, accumulated in fp64 (sums all in fp32
/// read 2 % low at 1e8 equal elements on the CPU). Not finite where the square of an fp32 element is not. Undefined
/// tensors count as zero; an empty list gives 0 on the CPU. No host synchronisation.
at::Tensor squared_norm(const std::vector<at::Tensor>& tensors);

/// Elements of all tensors together that are 0: 0-dim fp64 on their device. Undefined tensors have none; an empty list
/// gives 0 on the CPU. No host synchronisation.
at::Tensor count_zeros(const std::vector<at::Tensor>& tensors);

/// What the update must know of the gradients; everything stays on the device.
struct GradSummary {
  at::Tensor norm;  ///< 0-dim fp32: L2 norm over all parameters, before clipping, loss scale taken out.
  /// 0-dim fp32: by what the optimiser divides gradients (loss scale x clipping); undefined: 1.
  at::Tensor grad_divisor;
  at::Tensor found_inf;  ///< 0-dim fp32: 1 where a gradient is not finite, else 0.
};

/// `max_norm` <= 0: no clipping; else gradients are divided by max(1, (norm + 1e-6) / max_norm), torch's rule.
/// `loss_scale` may be undefined. `shards`: given where each rank holds only a part of the gradients; one all-reduce of
/// one number makes the norm that of all parts.
GradSummary summarise_gradients(const std::vector<at::Tensor>& gradients, double max_norm, const at::Tensor& loss_scale,
                                comm::Comm* shards = nullptr);

}  // namespace lockstep::optim
