#include "bench/process_memory.h"

#include <ATen/DeviceAccelerator.h>
#include <fmt/format.h>

#include "hw/machine_memory.h"

namespace lockstep::bench {

int64_t peak_memory_bytes(at::Device device) {
  constexpr const char* kSelf = "/proc/self/status";
  if (device.is_cpu()) return hw::kilobyte_field(kSelf, "VmHWM") - hw::kilobyte_field(kSelf, "RssFile");
  constexpr size_t kAggregate = 0;
  return at::accelerator::getDeviceStats(device.index()).reserved_bytes[kAggregate].peak;
}

int64_t anonymous_bytes(pid_t pid) { return hw::kilobyte_field(fmt::format("/proc/{}/status", pid), "RssAnon"); }

}  // namespace lockstep::bench
