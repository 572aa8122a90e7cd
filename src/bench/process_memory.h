#pragma once
#include <ATen/core/TensorBody.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace lockstep::bench {

/// Most memory that this process has held so far: resident on the CPU, in LibTorch's allocator on an accelerator.
int64_t peak_memory_bytes(at::Device device);

/// Resident memory of a process now; 0 when it is gone.
int64_t resident_bytes(pid_t pid);
/// What the limits of a process's control group and of all groups above it leave; nothing without any limit. `membership` is its /proc/PID/cgroup and `mount`
/// where the groups lie, of version 2 or 1. The group of a SLURM step is three below that of its node.
std::optional<int64_t> left_in_control_groups(const std::filesystem::path& membership, const std::filesystem::path& mount);
/// What this process may use: what the limits of its control groups and the machine have left.
int64_t available_memory_bytes();

}  // namespace lockstep::bench
