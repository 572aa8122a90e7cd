#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>
#include <span>
#include <vector>

#include "comm/comm.h"

namespace c10 {
struct Event;
}

namespace lockstep::train {

/// A few numbers of the host that all ranks exchange in the background: neither the host nor the compute stream waits
/// before wait(). On a device all of it happens on a stream of its own; on the compute stream it would wait for the
/// step that has just been queued.
class NumbersInFlight {
 public:
  /// Starts it. Collective. `after`, where given, is what the device must have done first.
  static NumbersInFlight all_reduce_max(comm::Comm& world, at::Device device, const std::vector<double>& mine,
                                        const c10::Event* after = nullptr);
  /// The numbers of all ranks one behind the other, in rank order; as many of each.
  static NumbersInFlight all_gather(comm::Comm& world, at::Device device, const std::vector<double>& mine);

  /// Blocks the host until they are there, and, on a device, all that `after` stood for. CommError when a rank failed.
  std::span<const double> wait();

 private:
  NumbersInFlight(comm::Comm& world, at::Device device, const std::vector<double>& mine, bool gathers,
                  const c10::Event* after);
  comm::Work start(at::Tensor& numbers, const at::Tensor& mine, bool gathers);

  comm::Comm* world_;
  at::Tensor numbers_;         // on the host when read
  at::Tensor device_numbers_;  // on a device: alive until they have been copied
  at::Tensor device_mine_;
  comm::Work work_;                      // CPU
  std::shared_ptr<c10::Event> arrival_;  // on a device: when the numbers lie in host memory
};

}  // namespace lockstep::train
