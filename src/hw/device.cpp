#include "hw/device.h"

#include <sys/utsname.h>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <vector>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::hw {
namespace {

/// Numbers of the cores of this process's affinity mask; empty where the kernel does not tell.
std::vector<int> mask_cores() {
  std::vector<int> cores;
  for (int capacity = 1024; capacity <= 1 << 20; capacity *= 4) {  // the kernel's mask may be larger than cpu_set_t
    cpu_set_t* mask = CPU_ALLOC(capacity);
    if (mask == nullptr) break;
    const size_t mask_bytes = CPU_ALLOC_SIZE(capacity);
    if (::sched_getaffinity(0, mask_bytes, mask) == 0)
      for (int core = 0; core < capacity; ++core)
        if (CPU_ISSET_S(static_cast<size_t>(core), mask_bytes, mask)) cores.push_back(core);
    CPU_FREE(mask);
    if (!cores.empty()) break;
  }
  return cores;
}

int affinity_cores() {
  const auto count = static_cast<int>(mask_cores().size());
  return count > 0 ? count : static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

/// Cores that cgroup v2's cpu.max ("QUOTA PERIOD" in microseconds, or "max PERIOD") allows; 0 for no limit.
int quota_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota_us = 0, period_us = 0;
  if (!(file >> quota_us >> period_us) || quota_us <= 0 || period_us <= 0) return 0;
  return std::max(1, static_cast<int>(std::ceil(quota_us / period_us)));
}

}  // namespace

EnvironmentError without_gpu(const std::string& flag, const std::string& instead) {
  return EnvironmentError(
      fmt::format("hw: {} was asked for, and this machine shows no GPU: seen=0, expected at least 1", flag),
      fmt::format("use {}, or start the run where there are GPUs and ask the job for them (--gpus-per-node)", instead));
}

DeviceChoice choose_device(DeviceKind kind, int visible_gpus, int local_rank, int local_world_size) {
  if (kind == DeviceKind::kCpu) return {DeviceKind::kCpu, 0};
  if (visible_gpus < 1) throw without_gpu("--device cuda", "--device cpu");
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

std::string cpu_mask_text() {
  const std::vector<int> cores = mask_cores();
  std::string text;
  for (size_t first = 0, last = 0; first < cores.size(); first = last + 1) {
    last = first;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cores[first]);
    if (last > first) text += fmt::format("-{}", cores[last]);
  }
  return text;
}

int cpu_cores_of_rank(int num_sharing, int num_local) {
  const int share = cpu_threads_per_rank(affinity_cores(), num_sharing), quota = quota_cores();
  return quota > 0 ? std::min(share, cpu_threads_per_rank(quota, num_local)) : share;
}

ThreadChoice choose_threads(int64_t asked, const std::optional<std::string>& variable, int cores_of_rank,
                            int num_sharing, int num_cores) {
  constexpr int64_t kMost = 4096;
  ThreadChoice choice{.count = cores_of_rank,
                      .reason = num_sharing > 1 ? fmt::format("its share of the cores that {} ranks have", num_sharing)
                                                : std::string("its cores")};
  const auto number = variable ? core::parse_int(core::trim(variable->substr(0, variable->find(','))))
                               : std::nullopt;  // "4,2": nesting
  const bool is_number = number && *number > 0 && *number <= kMost;
  if (asked > 0) {
    choice.count = static_cast<int>(asked);
    choice.reason = "--threads";
  } else if (is_number) {
    choice.count = static_cast<int>(*number);
    choice.reason = "OMP_NUM_THREADS";
  } else if (variable) {
    choice.warnings.push_back(
        fmt::format("OMP_NUM_THREADS='{}' is no number in [1, {}] and has no effect: {} compute "
                    "threads a rank, {}",
                    *variable, kMost, choice.count, choice.reason));
  }
  const int most = cpu_threads_per_rank(num_cores, num_sharing);
  if (num_sharing * choice.count > num_cores)
    choice.warnings.push_back(
        fmt::format("{} {} x {} compute threads ({}) on {} cores: they hinder each other; start fewer ranks{}",
                    num_sharing, num_sharing == 1 ? "rank" : "ranks", choice.count, choice.reason, num_cores,
                    choice.count > most ? fmt::format(", or give each at most {} with --threads", most) : ""));
  return choice;
}

}  // namespace lockstep::hw
