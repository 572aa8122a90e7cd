#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "comm/named_tensor.h"

namespace lockstep::parallel {

/// Averages gradients over the data axis while backward is still running.
///
/// Per step: begin_step, then begin_micro + backward for each micro-batch, then finish, then the optimiser, then publish_params.
/// finish() orders the compute stream after the last collective; on CUDA it does not block the host. Gradients are views into
/// bucket memory (they keep the parameter's strides); never replace param.grad().
class GradSync {
 public:
  virtual ~GradSync() = default;
  virtual void begin_step() = 0;                   ///< Gradients become zero.
  virtual void begin_micro(bool is_last) = 0;      ///< Only the last micro-batch's backward communicates.
  virtual void finish() = 0;                       ///< Gradients are the mean over the data axis afterwards.
  virtual void publish_params() = 0;               ///< After the update: zero1 gathers parameters; else nothing.
  virtual int64_t num_buckets() const = 0;
};

/// "none": nothing is reduced and no buckets exist (gradients are released in begin_step); for one rank.
std::unique_ptr<GradSync> make_grad_sync_none(std::vector<comm::NamedTensor> parameters);
/// "ddp": flat buckets of at most `bucket_bytes`, last parameter first, all-reduced while backward runs. Parameters that do not
/// require a gradient are left out. Built after parameters have their final type, device and memory format; `data_axis` must
/// outlive it. Within the last micro-batch each parameter must receive its gradient in one backward pass. `reduce_in_fp32`:
/// 16-bit gradients are averaged in fp32 and rounded once, at twice the bytes sent.
std::unique_ptr<GradSync> make_grad_sync_ddp(std::vector<comm::NamedTensor> parameters, comm::Comm& data_axis,
                                             int64_t bucket_bytes, bool reduce_in_fp32 = false);

}  // namespace lockstep::parallel
