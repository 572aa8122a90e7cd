#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"

namespace lockstep::hw {

enum class DeviceKind { kCpu, kCuda };

/// The device one rank computes on.
struct DeviceChoice {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;  ///< Among the visible GPUs; 0 on the CPU.
};

/// The refusal of `flag` ("--device cuda") where this machine has no GPU; `instead`: what asks for none.
EnvironmentError without_gpu(const std::string& flag, const std::string& instead);

/// Device of a rank: with one visible GPU that one (SLURM's GPU binding shows each task its own), else the GPU of the
/// local rank. More local ranks than visible GPUs where there are several throw EnvironmentError with both numbers, no
/// visible GPU throws without_gpu("--device cuda").
DeviceChoice choose_device(DeviceKind kind, int visible_gpus, int local_rank, int local_world_size);

/// What the processor calls itself ("AMD EPYC 9354"), or its architecture where it has no name.
std::string cpu_name();

/// CPU cores this process may use: its affinity mask, cut down to the quota of its control group.
int usable_cpu_cores();

/// Cores for each of `num_ranks` processes of this machine, at least 1.
int cpu_threads_per_rank(int cores, int num_ranks);

/// The cores of this process's affinity mask as "0-3,8"; processes of a machine with the same text share them.
std::string cpu_mask_text();

/// How many cores a rank has: those of its affinity mask shared out among the `num_sharing` ranks with the same mask,
/// and at most its part of the control group's quota, which all `num_local` ranks of the machine share. At least 1.
int cpu_cores_of_rank(int num_sharing, int num_local);

/// How many compute threads a rank has, and what says so.
struct ThreadChoice {
  int count = 1;
  std::string reason;                   ///< "--threads", "OMP_NUM_THREADS", "8 cores shared by 2 ranks".
  std::vector<std::string> warnings{};  ///< A variable that says no number; more threads than cores.
};
/// In this order: `asked` (--threads) where it is above 0; `variable` (OMP_NUM_THREADS) where it begins with a number
/// in [1, 4096]; else the cores of the rank. `num_cores` are those that all sharing ranks have together.
ThreadChoice choose_threads(int64_t asked, const std::optional<std::string>& variable, int cores_of_rank,
                            int num_sharing, int num_cores);

}  // namespace lockstep::hw
