#pragma once
#include <ATen/core/TensorBody.h>

#include <array>

#include "data/batch.h"
#include "models/task.h"

namespace lockstep::train {

/// Host batch -> device batch: bytes become numbers of type `dtype`, (x / 255 - mean) / std per colour, in
/// channels_last memory; token ids become int64. Sounds stay fp32.
class BatchMover {
 public:
  BatchMover(at::Device device, at::ScalarType dtype, const std::array<float, 3>& mean,
             const std::array<float, 3>& std);
  enum class Texts { kMove, kLeave };
  /// Batches get keys by the contents of pictures or texts.
  void add_keys(bool of_images, bool of_texts) { keys_images_ = of_images, keys_texts_ = of_texts; }
  /// Host memory may be reused as soon as this returns.
  models::Batch to_device(const data::HostBatch& host, Texts texts = Texts::kMove) const;
  at::Device device() const { return device_; }

 private:
  at::Tensor copy(const at::Tensor& host) const;

  at::Device device_;
  at::ScalarType dtype_;
  bool keys_images_ = false, keys_texts_ = false;
  at::Tensor scale_C_, shift_C_;
};

}  // namespace lockstep::train
