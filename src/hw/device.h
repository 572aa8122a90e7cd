#pragma once
#include <string>

namespace lockstep::hw {

enum class DeviceKind { kCpu, kCuda };

/// The device one rank computes on.
struct DeviceChoice {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;  ///< Among the visible GPUs; 0 on the CPU.
};

/// Device of a rank: with one visible GPU that one (SLURM's GPU binding shows each task its own), else the GPU of the
/// local rank. No visible GPU, or more local ranks than visible GPUs where there are several, throws EnvironmentError
/// with both numbers.
DeviceChoice choose_device(DeviceKind kind, int visible_gpus, int local_rank, int local_world_size);

/// What the processor calls itself ("AMD EPYC 9354"), or its architecture where it has no name.
std::string cpu_name();

/// CPU cores this process may use: its affinity mask, cut down to the quota of its control group.
int usable_cpu_cores();

/// Cores for each of `num_ranks` processes of this machine, at least 1.
int cpu_threads_per_rank(int cores, int num_ranks);

}  // namespace lockstep::hw
