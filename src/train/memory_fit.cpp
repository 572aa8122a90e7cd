#include "train/memory_fit.h"

#include <ATen/DeviceAccelerator.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/host_name.h"
#include "core/units.h"
#include "hw/machine_memory.h"
#include "train/agree.h"

namespace lockstep::train {
namespace {

/// "most of it activations (30.0 GiB), optimizer (2.00 GiB)": the parts above a tenth of the whole, largest first.
std::string largest_parts(std::vector<std::pair<std::string, double>> parts) {
  double total = 0;
  for (const auto& part : parts) total += part.second;
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [name, bytes] : parts)
    if (bytes > 0.1 * total)
      text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", name, core::format_bytes(bytes));
  return text;
}

/// The ranks of a machine share its memory. Collective.
void check_machine(const PlannedMemory& plan, comm::Comm& world) {
  const std::string host = core::host_name();
  const std::vector<std::string> hosts = world.gather_strings(host);
  double planned_bytes = 0;
  for (size_t rank = 0; rank < hosts.size(); ++rank)
    if (hosts[rank] == host) planned_bytes += plan.bytes_of_ranks[rank];
  succeed_together(world, [&] {
    refuse_beyond_memory(plan, planned_bytes, static_cast<double>(hw::available_memory_bytes()),
                         fmt::format("machine '{}'", host));
  });
}

}  // namespace

void refuse_beyond_memory(const PlannedMemory& plan, double planned_bytes, double bytes, const std::string& device) {
  if (planned_bytes <= kPlanMargin * bytes) return;
  const std::string parts = largest_parts(plan.parts_of_fullest);
  throw EnvironmentError(fmt::format("plan: model '{}' laid out so takes {} of memory, {} has {}{}", plan.model,
                                     core::format_bytes(planned_bytes), device, core::format_bytes(bytes),
                                     parts.empty() ? "" : "; most of a rank's is " + parts),
                         fmt::format("{}; {} shows what takes how much", plan.hint, plan.shown_by));
}

void check_memory_fits(const PlannedMemory& plan, comm::Comm& world, at::Device device) {
  LOCKSTEP_CHECK(std::ssize(plan.bytes_of_ranks) == world.size(), "{} of {} ranks", plan.bytes_of_ranks.size(),
                 world.size());
  if (device.is_cpu()) return check_machine(plan, world);
  succeed_together(world, [&] {
    const auto [left, all] = at::accelerator::getMemoryInfo(device.index());
    refuse_beyond_memory(plan, plan.bytes_of_ranks[static_cast<size_t>(world.rank())], static_cast<double>(left),
                         fmt::format("device '{}', of whose {} other programs may hold some,", device.str(),
                                     core::format_bytes(static_cast<double>(all))));
  });
}

}  // namespace lockstep::train
