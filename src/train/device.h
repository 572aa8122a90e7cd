#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <string>

#include "comm/comm.h"
#include "config/gpu_math.h"
#include "hw/ranks.h"

namespace lockstep::train {

/// The device of a rank from --device {auto,cuda,cpu} and --dist-backend (hw::choose_device, with its refusals). It is
/// current for the calling thread from then on: a thread that sets no device puts a context, some hundred MB, on GPU 0.
/// A GPU computes by `math` from then on, in the whole process; where the device is the CPU, freed memory stays with it
/// (core::keep_freed_memory).
/// EnvironmentError also for a device that cannot be used now: another process holds it, or all of its memory.
at::Device pick_device(const std::string& request, const config::GpuMath& math, const hw::RankInfo& rank = {},
                       const std::string& backend = "auto");

/// "nccl" or "gloo", by --dist-backend {auto,nccl,gloo}. UsageError where several ranks on GPUs ask for Gloo, which
/// here sends what lies on the CPU alone.
std::string choose_backend(const std::string& asked, at::Device device, int num_ranks);

/// hw::gpu_key of a rank's device; "" on the CPU.
std::string gpu_key(at::Device device);

/// For a process alone: compute threads as set_compute_threads, without a log line; freed memory stays with it.
void set_up_lone_cpu(int64_t asked);

/// Sets the compute threads of this process (hw::choose_threads; `asked` is --threads) and tells them in the log.
/// Collective: ranks find out with whom they share their cores.
void set_compute_threads(comm::Comm& world, int64_t asked, int local_world_size);

}  // namespace lockstep::train
