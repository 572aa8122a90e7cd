#pragma once
#include <ATen/core/TensorBody.h>

#include <array>

#include "data/batch.h"
#include "models/task.h"
#include "train/copy_stream.h"

namespace lockstep::train {

/// Host batch -> device batch, on a stream of its own: bytes become numbers of type `dtype`, (x / 255 - mean) / std per
/// colour, in channels_last memory; token ids become int64. Sounds stay fp32.
class BatchMover {
 public:
  enum class TextPlace { kDevice, kHost };  ///< On the host: for towers that pack texts there.
  BatchMover(at::Device device, at::ScalarType dtype, const std::array<float, 3>& mean, const std::array<float, 3>& std,
             TextPlace text_place = TextPlace::kDevice);
  enum class Texts { kMove, kLeave };
  /// Batches get keys by the contents of pictures or texts.
  void add_keys(bool of_images, bool of_texts) { keys_images_ = of_images, keys_texts_ = of_texts; }
  /// Host memory may be reused as soon as this returns.
  models::Batch to_device(const data::HostBatch& host, Texts texts = Texts::kMove) const;
  at::Device device() const { return stream_.device(); }

 private:
  models::Batch make(const data::HostBatch& host, Texts texts) const;
  at::Tensor ids(const data::HostBatch& host) const;

  CopyStream stream_;
  at::ScalarType dtype_;
  TextPlace text_place_;
  bool keys_images_ = false, keys_texts_ = false;
  at::Tensor scale_C_, shift_C_;
};

}  // namespace lockstep::train
