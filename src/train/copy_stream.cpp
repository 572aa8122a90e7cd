#include "train/copy_stream.h"

#include <ATen/core/Tensor.h>

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace lockstep::train {
namespace {

/// The allocator gives none of its memory away before `stream` has come here.
void share_with(const models::Batch& batch, const c10::Stream& stream) {
  for (const at::Tensor* part : {&batch.image_BCYX, &batch.audio_BS, &batch.text_BT, &batch.label_B, &batch.target_BT,
                                 &batch.loss_weight_BT, &batch.position_BT, &batch.document_BT})
    if (part->defined() && !part->is_cpu()) at::Tensor(*part).record_stream(stream);
}

}  // namespace

CopyStream::CopyStream(at::Device device) : device_(device) {
  // The streams of the other priority are not those that NCCL and telemetry take, which would be waited for.
  if (!device.is_cpu())
    stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, /*isHighPriority=*/true);
}

models::Batch CopyStream::run(const std::function<models::Batch()>& make) const {
  if (!stream_) return make();
  const c10::Stream computing = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  models::Batch batch;
  c10::Event arrival(device_.type());
  {
    const c10::StreamGuard guard(*stream_);
    batch = make();
    arrival.record(*stream_);
  }
  arrival.block(computing);
  share_with(batch, computing);
  return batch;
}

at::Tensor CopyStream::staged(const at::Tensor& host) const {
  return device_.is_cpu() ? host : host.pin_memory().to(device_, /*non_blocking=*/true);
}

}  // namespace lockstep::train
