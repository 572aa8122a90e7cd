#include "tasks/front/device_here.h"

#include "hw/device.h"
#include "hw/gpus.h"

namespace lockstep::tasks {

std::vector<EnvironmentError> missing_devices(const config::RunOptions& options, const core::OptionSet& set) {
  std::vector<EnvironmentError> missing;
  if (options.dry_run || hw::find_gpus().any()) return missing;
  if (options.device == "cuda") missing.push_back(hw::without_gpu("--device cuda", "--device cpu"));
  const bool is_megatron = set.find("distributed-backend") != nullptr;
  const std::string flag = is_megatron ? "--distributed-backend" : "--dist-backend";
  if (options.device != "cpu" && options.dist_backend == "nccl")
    missing.push_back(hw::without_gpu(flag + " nccl", flag + " gloo"));
  return missing;
}

}  // namespace lockstep::tasks
