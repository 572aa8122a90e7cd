#include "tasks/front/device_here.h"

#include "config/option_checks.h"
#include "hw/gpus.h"

namespace lockstep::tasks {

void check_device_here(const config::RunOptions& options, const core::OptionSet& set, UsageProblems& problems) {
  if (options.dry_run || hw::find_gpus().any()) return;
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
