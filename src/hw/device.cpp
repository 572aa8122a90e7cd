#include "hw/device.h"

#include <sys/utsname.h>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "core/error.h"

namespace lockstep::hw {
namespace {

int affinity_cores() {
  for (int capacity = 1024; capacity <= 1 << 20; capacity *= 4) {  // the kernel's mask may be larger than cpu_set_t
    cpu_set_t* mask = CPU_ALLOC(capacity);
    if (mask == nullptr) break;
    const size_t mask_bytes = CPU_ALLOC_SIZE(capacity);
    const int count = ::sched_getaffinity(0, mask_bytes, mask) == 0 ? CPU_COUNT_S(mask_bytes, mask) : 0;
    CPU_FREE(mask);
    if (count > 0) return count;
  }
  return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

/// Cores that cgroup v2's cpu.max ("QUOTA PERIOD" in microseconds, or "max PERIOD") allows; 0 for no limit.
int quota_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota_us = 0, period_us = 0;
  if (!(file >> quota_us >> period_us) || quota_us <= 0 || period_us <= 0) return 0;
  return std::max(1, static_cast<int>(std::ceil(quota_us / period_us)));
}

}  // namespace

DeviceChoice choose_device(DeviceKind kind, int visible_gpus, int local_rank, int local_world_size) {
  if (kind == DeviceKind::kCpu) return {DeviceKind::kCpu, 0};
  if (visible_gpus < 1)
    throw EnvironmentError(
        "hw: no GPU is visible: seen=0, expected at least 1",
        "use --device cpu, or check the driver, CUDA_VISIBLE_DEVICES and what the job asked for (--gpus-per-node)");
  if (visible_gpus == 1) return {DeviceKind::kCuda, 0};
  const int needed = std::max(local_world_size, local_rank + 1);
  if (needed > visible_gpus)
    throw EnvironmentError(
        fmt::format("hw: {} local ranks, but only {} GPUs are visible", needed, visible_gpus),
        fmt::format("start {} ranks on each node (--nproc-per-node, --ntasks-per-node), or make more GPUs visible",
                    visible_gpus));
  return {DeviceKind::kCuda, local_rank};
}

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const auto value = line.find_first_not_of(": \t", line.find(':'));
    if (value != std::string::npos) return line.substr(value);
  }
  utsname name{};
  return ::uname(&name) == 0 ? std::string(name.machine) + " CPU" : "CPU";
}

int usable_cpu_cores() {
  const int affinity = affinity_cores(), quota = quota_cores();
  return quota > 0 ? std::min(affinity, quota) : affinity;
}

int cpu_threads_per_rank(int cores, int num_ranks) { return std::max(1, cores / std::max(1, num_ranks)); }

}  // namespace lockstep::hw
