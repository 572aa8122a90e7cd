#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::hw {

/// Bytes behind `key` in a file of /proc with lines "key:  N kB"; 0 without.
int64_t kilobyte_field(const std::string& path, const std::string& key);
/// What the limits of a process's control group and of all groups above it leave; nothing without any limit.
/// `membership` is its /proc/PID/cgroup and `mount` where the groups lie, of version 2 or 1. The group of a SLURM step
/// is three below that of its node.
std::optional<int64_t> left_in_control_groups(const std::filesystem::path& membership,
                                              const std::filesystem::path& mount);
/// What this process may use: what the limits of its control groups and the machine have left.
int64_t available_memory_bytes();
/// Names of this machine's NVIDIA GPUs as the driver tells them below `driver`; empty without one. Nothing of CUDA is
/// loaded.
std::vector<std::string> gpu_names(const std::filesystem::path& driver = "/proc/driver/nvidia/gpus");

}  // namespace lockstep::hw
