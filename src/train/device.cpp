#include "train/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include "core/heap.h"
#include "hw/device.h"

namespace lockstep::train {

at::Device pick_device(const std::string& request, int local_rank, int local_world_size) {
  const int visible_gpus =
      at::globalContext().hasCUDA() ? static_cast<int>(at::detail::getCUDAHooks().getNumGPUs()) : 0;
  const bool is_cuda = request == "cuda" || (request == "auto" && visible_gpus > 0);
  const auto choice = hw::choose_device(is_cuda ? hw::DeviceKind::kCuda : hw::DeviceKind::kCpu, visible_gpus,
                                        local_rank, local_world_size);
  return choice.kind == hw::DeviceKind::kCuda ? at::Device(at::kCUDA, static_cast<at::DeviceIndex>(choice.index))
                                              : at::Device(at::kCPU);
}

void set_compute_threads(int64_t asked, int local_world_size) {
  at::set_num_threads(asked > 0 ? static_cast<int>(asked)
                                : hw::cpu_threads_per_rank(hw::usable_cpu_cores(), local_world_size));
}

void set_up_cpu(at::Device device, int64_t asked, int local_world_size) {
  set_compute_threads(asked, local_world_size);
  if (device.is_cpu()) core::keep_freed_memory();
}

}  // namespace lockstep::train
