#include "tasks/gpt/engine/gpt_fit.h"

#include <ATen/DeviceAccelerator.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/host_name.h"
#include "core/units.h"
#include "hw/machine_memory.h"
#include "tasks/gpt/front/gpt_plan.h"
#include "train/agree.h"

namespace lockstep::tasks {
namespace {

/// Planned bytes of a rank of each stage.
std::vector<double> bytes_of_stages(GptOptions options, const plan::GptLayout& layout, at::Device device) {
  options.device = device.is_cpu() ? "cpu" : "cuda";
  const plan::GptMemoryInput input = train_gpt_memory(options);
  const plan::PipeSchedule schedule = plan::make_pipe_schedule(layout.pipe);
  std::vector<double> bytes;
  for (int stage = 0; stage < layout.pp(); ++stage)
    bytes.push_back(plan::plan_gpt_memory(layout, schedule, stage, input).total());
  return bytes;
}

/// The ranks of this machine share its memory. Collective.
void check_machine(const std::vector<double>& of_stages, const plan::GptLayout& layout, comm::MeshGroups& groups) {
  const std::string host = core::host_name();
  const std::vector<std::string> hosts = groups.world.gather_strings(host);
  double planned = 0;
  for (int rank = 0; rank < std::ssize(hosts); ++rank)
    if (hosts[static_cast<size_t>(rank)] == host)
      planned += of_stages[static_cast<size_t>(layout.mesh.point_of(rank).pp)];
  train::succeed_together(groups.world, [&] {
    refuse_beyond_memory(layout.shape, planned, static_cast<double>(hw::available_memory_bytes()),
                         fmt::format("machine '{}'", host));
  });
}

}  // namespace

void check_gpt_fits(const GptOptions& options, const plan::GptLayout& layout, comm::MeshGroups& groups,
                    at::Device device) {
  const std::vector<double> of_stages = bytes_of_stages(options, layout, device);
  if (device.is_cpu()) return check_machine(of_stages, layout, groups);
  train::succeed_together(groups.world, [&] {
    const auto [left, all] = at::accelerator::getMemoryInfo(device.index());
    refuse_beyond_memory(layout.shape, of_stages[static_cast<size_t>(groups.mesh.point().pp)],
                         static_cast<double>(left),
                         fmt::format("device '{}', of whose {} other programs may hold some,", device.str(),
                                     core::format_bytes(static_cast<double>(all))));
  });
}

}  // namespace lockstep::tasks
