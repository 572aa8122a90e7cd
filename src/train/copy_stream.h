#pragma once
#include <ATen/core/TensorBody.h>

#include <functional>
#include <optional>

#include "models/task.h"

namespace lockstep::train {

/// A stream of a device beside that of the computation: a batch travels on it while steps before it are computed (see
/// plan::BatchPlan::micro_batches_held). On the CPU nothing of its own.
class CopyStream {
 public:
  explicit CopyStream(at::Device device);
  /// What `make` gives, made on this stream. The stream that the caller works on waits for it, the host does not.
  /// `make` takes nothing from the device that is not there yet.
  models::Batch run(const std::function<models::Batch()>& make) const;
  /// On the device, by way of pinned memory; on the CPU the same memory. Host memory may be reused at once.
  at::Tensor staged(const at::Tensor& host) const;
  at::Device device() const { return device_; }

 private:
  at::Device device_;
  std::optional<c10::Stream> stream_;  // none on the CPU
};

}  // namespace lockstep::train
