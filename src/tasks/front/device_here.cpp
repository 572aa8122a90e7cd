#include "tasks/front/device_here.h"

#include <filesystem>

#include "config/option_checks.h"
#include "hw/machine_memory.h"

namespace lockstep::tasks {
namespace {

/// By the driver's list, and by devices where a container shows only those.
bool has_gpu() {
  std::error_code ignored;
  if (!hw::gpu_names().empty()) return true;
  for (const char* device : {"/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg"})
    if (std::filesystem::exists(device, ignored)) return true;
  return false;
}

}  // namespace

void check_device_here(const config::RunOptions& options, const core::OptionSet& set, UsageProblems& problems) {
  if (options.dry_run || has_gpu()) return;
  problems.collect([&] {
    config::refuse_if(options.device == "cuda", "--device cuda: this machine has no GPU",
                      "use --device cpu, or start the run where there are GPUs");
  });
  const bool is_megatron = set.find("distributed-backend") != nullptr;
  const std::string flag = is_megatron ? "--distributed-backend" : "--dist-backend";
  problems.collect([&] {
    config::refuse_if(options.device != "cpu" && options.dist_backend == "nccl",
                      fmt::format("{} nccl: this machine has no GPU", flag), fmt::format("use {} gloo", flag));
  });
}

}  // namespace lockstep::tasks
