#include "train/device.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "core/env.h"
#include "core/heap.h"
#include "core/host_name.h"
#include "core/log.h"
#include "hw/device.h"

namespace lockstep::train {
namespace {

/// OMP_NUM_THREADS, unless it is the 1 that torchrun itself sets for several ranks: nobody asked for that.
std::optional<std::string> asked_by_environment() {
  const auto variable = core::env("OMP_NUM_THREADS");
  const bool is_of_torchrun = variable == "1" && core::env("TORCHELASTIC_RUN_ID").has_value();
  return is_of_torchrun ? std::nullopt : variable;
}

}  // namespace

at::Device pick_device(const std::string& request, int local_rank, int local_world_size) {
  const auto accelerator = at::accelerator::getAccelerator();
  const int visible_gpus = accelerator ? static_cast<int>(at::accelerator::deviceCount()) : 0;
  const bool is_cuda = request == "cuda" || (request == "auto" && visible_gpus > 0);
  const auto choice = hw::choose_device(is_cuda ? hw::DeviceKind::kCuda : hw::DeviceKind::kCpu, visible_gpus,
                                        local_rank, local_world_size);
  if (choice.kind != hw::DeviceKind::kCuda) return at::Device(at::kCPU);
  const auto index = static_cast<at::DeviceIndex>(choice.index);
  at::accelerator::setDeviceIndex(index);  // before the first allocation, event or pinned byte of this rank
  return {*accelerator, index};
}

void set_up_lone_cpu(int64_t asked) {
  const hw::ThreadChoice choice = hw::choose_threads(asked, asked_by_environment(), hw::cpu_cores_of_rank(1, 1),
                                                     /*num_sharing=*/1, hw::usable_cpu_cores());
  for (const auto& warning : choice.warnings) core::log_warning("train: {}", warning);
  at::set_num_threads(choice.count);
  core::keep_freed_memory();
}

void set_compute_threads(comm::Comm& world, int64_t asked, int local_world_size) {
  const std::string mine = core::host_name() + " " + hw::cpu_mask_text();
  const std::vector<std::string> all = world.gather_strings(mine);
  const auto num_sharing = static_cast<int>(std::count(all.begin(), all.end(), mine));
  const hw::ThreadChoice choice =
      hw::choose_threads(asked, asked_by_environment(), hw::cpu_cores_of_rank(num_sharing, local_world_size),
                         num_sharing, hw::usable_cpu_cores());
  if (world.rank() == 0)  // others are told alike
    for (const auto& warning : choice.warnings) core::log_warning("train: {}", warning);
  at::set_num_threads(choice.count);
  core::log_info("compute threads of this rank: {} ({})", choice.count, choice.reason);
}

}  // namespace lockstep::train
