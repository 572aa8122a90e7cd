#include "bench/process_memory.h"

#include <ATen/DeviceAccelerator.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "core/strings.h"

namespace lockstep::bench {
namespace {

/// Bytes behind `key` in a file of lines "key:  N kB"; 0 without.
int64_t kilobyte_field(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (core::starts_with(line, key + ":")) {
      const auto words = core::split(core::trim(std::string_view(line).substr(key.size() + 1)), " ");
      return core::parse_int(words[0]).value_or(0) * 1024;
    }
  return 0;
}

/// The number in the first line of a file; nothing for "max" and for no file.
std::optional<int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return core::parse_int(core::trim(line));
}

}  // namespace

int64_t peak_memory_bytes(at::Device device) {
  if (device.is_cpu()) return kilobyte_field("/proc/self/status", "VmHWM");
  constexpr size_t kAggregate = 0;
  return at::accelerator::getDeviceStats(device.index()).reserved_bytes[kAggregate].peak;
}

int64_t resident_bytes(pid_t pid) { return kilobyte_field(fmt::format("/proc/{}/status", pid), "VmRSS"); }

int64_t available_memory_bytes() {
  int64_t bytes = kilobyte_field("/proc/meminfo", "MemAvailable");
  for (const char* folder : {"/sys/fs/cgroup/memory.", "/sys/fs/cgroup/memory/memory."})
    for (const auto& [limit, usage] : {std::pair("max", "current"), std::pair("limit_in_bytes", "usage_in_bytes")})
      if (const auto most = number_in(std::string(folder) + limit), used = number_in(std::string(folder) + usage); most && used)
        bytes = std::min(bytes, *most - *used);
  return std::max<int64_t>(bytes, 0);
}

}  // namespace lockstep::bench
