#include "train/numbers_in_flight.h"

#include <ATen/ATen.h>

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>

namespace lockstep::train {
namespace {

/// The stream of all such numbers of this thread and device: each stream of the pool would keep memory of its own.
c10::Stream stream_of(at::Device device) {
  thread_local std::map<c10::DeviceIndex, c10::Stream> streams;
  const auto found = streams.find(device.index());
  if (found != streams.end()) return found->second;
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  return streams.emplace(device.index(), stream).first->second;
}

}  // namespace

NumbersInFlight NumbersInFlight::all_reduce_max(comm::Comm& world, at::Device device, const std::vector<double>& mine,
                                                const c10::Event* after) {
  return {world, device, mine, /*gathers=*/false, after};
}

NumbersInFlight NumbersInFlight::all_gather(comm::Comm& world, at::Device device, const std::vector<double>& mine) {
  return {world, device, mine, /*gathers=*/true, nullptr};
}

NumbersInFlight::NumbersInFlight(comm::Comm& world, at::Device device, const std::vector<double>& mine, bool gathers,
                                 const c10::Event* after)
    : world_(&world) {
  const at::Tensor own = at::tensor(mine, at::kDouble);
  if (device.is_cpu()) {
    work_ = start(numbers_, own, gathers);
    return;
  }
  const c10::Stream stream = stream_of(device);
  const c10::StreamGuard guard(stream);
  if (after != nullptr) after->block(stream);
  device_mine_ = own.pin_memory().to(device, /*non_blocking=*/true);
  start(device_numbers_, device_mine_, gathers).wait();  // this stream waits, not the host
  numbers_ = at::empty(device_numbers_.sizes(), at::TensorOptions(at::kDouble).pinned_memory(true));
  numbers_.copy_(device_numbers_, /*non_blocking=*/true);
  arrival_ = std::make_shared<c10::Event>(stream.device_type());
  arrival_->record(stream);
}

comm::Work NumbersInFlight::start(at::Tensor& numbers, const at::Tensor& mine, bool gathers) {
  if (!gathers) {
    numbers = mine;
    return world_->all_reduce(numbers, comm::ReduceOp::kMax);
  }
  numbers = at::empty({world_->size() * mine.numel()}, mine.options());
  return world_->all_gather_into(numbers, mine);
}

std::span<const double> NumbersInFlight::wait() {
  if (arrival_) {
    arrival_->synchronize();  // sync: of an older step; the device has a later one to work on
    world_->check_alive();    // or the numbers may be none
  } else {
    work_.wait();
  }
  return {numbers_.const_data_ptr<double>(), static_cast<size_t>(numbers_.numel())};
}

}  // namespace lockstep::train
