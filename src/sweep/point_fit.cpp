#include "sweep/point_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "commands/commands.h"
#include "core/error.h"
#include "core/strings.h"
#include "core/units.h"

namespace lockstep::sweep {
namespace {

/// The flags by which the command is asked whether it fits the device.
std::vector<std::string> dry_run_flags(const Plan& plan, const std::string& target_device) {
  if (target_device.empty()) return {"--dry-run"};
  const commands::ParsedCommand command =
      commands::declare_command(*commands::find_command(core::join(plan.command, " ")));
  for (const char* name : {"target-device", "device-memory"})
    if (command.set->find(name) != nullptr) return {"--dry-run", fmt::format("--{}={}", name, target_device)};
  throw UsageError(fmt::format("sweep: --target-device has no meaning for `{}`", command.info->name), "leave it out");
}

PointFit fit_of(Plan& plan, const Point& point, const std::vector<std::string>& dry_run) {
  std::vector<std::string> words = plan.command;
  words.insert(words.end(), point.flags.begin(), point.flags.end());
  words.insert(words.end(), dry_run.begin(), dry_run.end());
  commands::ParsedCommand parsed = commands::parse_command(words);
  commands::read_files(parsed);  // a tokenizer's vocabulary decides about the memory
  for (const std::string& warning : parsed.warnings)
    if (std::find(plan.warnings.begin(), plan.warnings.end(), warning) == plan.warnings.end())
      plan.warnings.push_back(warning);
  const tasks::DryRunPage page = parsed.task->dry_run(
      *parsed.set, {.num_ranks = point.num_ranks(), .source = "sweep", .ranks_per_node = point.ranks_per_node});
  return {.memory_bytes = page.memory_bytes,
          .device_bytes = page.device_bytes,
          .nodes_of_tensor_group = page.nodes_of_tensor_group};
}

void add_warnings(const Point& point, const std::string& target_device, std::vector<std::string>& warnings) {
  const PointFit& fit = *point.fit;
  if (!fit.fits())
    warnings.push_back(fmt::format("{}: takes {} of memory on a rank, {} has {}", point.axes_text(),
                                   core::format_bytes(fit.memory_bytes), target_device,
                                   core::format_bytes(fit.device_bytes.value_or(0))));
  if (fit.nodes_of_tensor_group > 1)
    warnings.push_back(
        fmt::format("{}: tensor ranks of one group lie on {} nodes of {} ranks: what they send in every "
                    "layer crosses the network",
                    point.axes_text(), fit.nodes_of_tensor_group, point.ranks_per_node));
}

}  // namespace

void judge_points(Plan& plan, const std::string& target_device) {
  const std::vector<std::string> dry_run = dry_run_flags(plan, target_device);
  std::map<std::string, PointFit> known;  // repeats differ in nothing that counts here
  for (Point& point : plan.points) {
    const std::string key = fmt::format("{} {} {}", point.nodes, point.ranks_per_node, fmt::join(point.flags, " "));
    const auto found = known.find(key);
    point.fit = found != known.end() ? found->second : fit_of(plan, point, dry_run);
    if (found != known.end()) continue;
    known.emplace(key, *point.fit);
    add_warnings(point, target_device, plan.warnings);
  }
}

}  // namespace lockstep::sweep
