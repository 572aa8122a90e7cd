#pragma once
#include <ATen/core/TensorBody.h>

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace lockstep::bench {

/// Calls `body` `num_warmup` times, then `num_samples` times, and returns how long each of the latter took in
/// microseconds: host time on the CPU, time between two events of the current stream on an accelerator (the host does
/// not wait between the calls).
std::vector<double> time_samples(at::Device device, int64_t num_warmup, int64_t num_samples,
                                 const std::function<void()>& body);

/// Waits for all work of the device.
void synchronize(at::Device device);

}  // namespace lockstep::bench
