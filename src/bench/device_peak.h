#pragma once
#include <ATen/core/TensorBody.h>

#include <optional>
#include <string>

#include "commands/bench_options.h"

namespace lockstep::bench {

/// As the driver or the processor names it.
std::string device_name(at::Device device);

/// What one device could do at the precision of the step, and who says so.
struct DevicePeak {
  double tflops = 0;
  std::string source;
};

/// --peak-tflops, else the measurement in --peak-from (DataError when it has none for this precision), else the table
/// of devices; nothing where none of them knows.
std::optional<DevicePeak> find_device_peak(const commands::BenchOptions& options, at::Device device);

}  // namespace lockstep::bench
