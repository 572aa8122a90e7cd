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
std::vector<std::string> dry_run_flags(const Plan& plan, const std::string& device_memory) {
  if (device_memory.empty()) return {"--dry-run"};
  const commands::ParsedCommand command =
      commands::declare_command(*commands::find_command(core::join(plan.command, " ")));
  if (command.set->find("device-memory") != nullptr)
    return {"--dry-run", fmt::format("--device-memory={}", device_memory)};
  throw UsageError(fmt::format("sweep: --device-memory has no meaning for `{}`", command.info->name), "leave it out");
}

/// Points by the inputs that they name and that this machine does not have.
using MissingInputs = std::map<std::string, std::vector<const Point*>>;

/// What the dry run of a point says.
struct Judgement {
  PointFit fit;
  std::vector<std::string> missing;
};

Judgement judge_point(Plan& plan, const Point& point, const std::vector<std::string>& dry_run) {
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
  return {.fit = {.memory_bytes = page.memory_bytes,
                  .device_bytes = page.device_bytes,
                  .is_doubtful = page.is_doubtful(),
                  .nodes_of_tensor_group = page.nodes_of_tensor_group},
          .missing = page.missing};
}

/// "0001, 0003"
std::string indexes_text(const std::vector<const Point*>& points) {
  std::vector<std::string> names;
  for (const Point* point : points) names.push_back(fmt::format("{:04}", point->index));
  return fmt::format("point{} {}", names.size() == 1 ? "" : "s", core::join(names, ", "));
}

/// One warning of each kind, with the points that it is about.
void add_warnings(Plan& plan, const std::string& device_memory, const MissingInputs& missing) {
  std::vector<const Point*> too_large;
  std::map<std::pair<int64_t, int64_t>, std::vector<const Point*>> spread;  // by nodes of a group and ranks of a node
  for (const Point& point : plan.points) {
    if (!point.fit->fits()) too_large.push_back(&point);
    if (const int64_t nodes = point.fit->nodes_of_tensor_group; nodes > 1)
      spread[{nodes, point.ranks_per_node}].push_back(&point);
  }
  if (!too_large.empty()) {
    const auto by_memory = [](const Point* a, const Point* b) { return a->fit->memory_bytes < b->fit->memory_bytes; };
    const auto [least, most] = std::minmax_element(too_large.begin(), too_large.end(), by_memory);
    const std::string from = core::format_bytes((*least)->fit->memory_bytes),
                      to = core::format_bytes((*most)->fit->memory_bytes);
    plan.warnings.push_back(fmt::format("{}: too large: {} of memory on a rank, {} has {}", indexes_text(too_large),
                                        from == to ? to : from + " to " + to, device_memory,
                                        core::format_bytes(too_large.front()->fit->device_bytes.value_or(0))));
  }
  for (const auto& [input, points] : missing)
    plan.warnings.push_back(fmt::format("{}: {}; that is well only if the nodes of the jobs have it",
                                        points.size() == plan.points.size() ? "every point" : indexes_text(points),
                                        input));
  for (const auto& [place, points] : spread)
    plan.warnings.push_back(
        fmt::format("{}: tensor ranks of one group lie on {} nodes of {} ranks: what they send in every layer crosses "
                    "the network",
                    indexes_text(points), place.first, place.second));
}

}  // namespace

void judge_points(Plan& plan, const std::string& device_memory) {
  const std::vector<std::string> dry_run = dry_run_flags(plan, device_memory);
  if (plan.result != ResultKind::kRunRecord) return;
  std::map<std::string, Judgement> known;  // repeats differ in nothing that counts here
  MissingInputs missing;
  for (Point& point : plan.points) {
    const std::string key = fmt::format("{} {} {}", point.nodes, point.ranks_per_node, fmt::join(point.flags, " "));
    const auto found = known.find(key);
    const Judgement& judgement =
        found != known.end() ? found->second : known.emplace(key, judge_point(plan, point, dry_run)).first->second;
    point.fit = judgement.fit;
    for (const std::string& input : judgement.missing) missing[input].push_back(&point);
  }
  add_warnings(plan, device_memory, missing);
}

}  // namespace lockstep::sweep
