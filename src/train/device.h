#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <string>

namespace lockstep::train {

/// The device of a rank from --device {auto,cuda,cpu}; "auto" is CUDA where a GPU is visible.
at::Device pick_device(const std::string& request, int local_rank, int local_world_size);

/// Compute threads of this process: `asked` > 0, or the rank's share of the cores.
void set_compute_threads(int64_t asked, int local_world_size);
/// The same; and where it computes on the CPU, freed memory stays with the process.
void set_up_cpu(at::Device device, int64_t asked, int local_world_size);

}  // namespace lockstep::train
