#include "predict/plan_sizes.h"

#include <algorithm>

#include "core/error.h"

namespace lockstep::predict {

std::vector<PlannedStep> plan_sizes(const PlannedCommand& command, const Machine& machine,
                                    const std::vector<int64_t>& asked, const std::vector<MeasuredStep>& measured,
                                    std::vector<std::string>& refused) {
  std::vector<PlannedStep> steps = plan_steps(command, machine, asked, refused);
  const auto plan_of = [&](int64_t nodes) {
    std::vector<std::string> ignored;
    return plan_steps(command, machine, {nodes}, ignored).at(0);
  };
  const auto is_planned = [&](int64_t nodes) {
    return std::any_of(steps.begin(), steps.end(), [&](const auto& step) { return step.nodes == nodes; });
  };
  for (const MeasuredStep& one : measured)
    if (!is_planned(one.nodes)) steps.push_back(plan_of(one.nodes));
  for (int64_t nodes = 1; steps.size() == 1 && nodes < steps.front().nodes; nodes *= 2) {
    try {
      if (PlannedStep step = plan_of(nodes); fit_memory({step}, machine).at(0)) steps.push_back(std::move(step));
    } catch (const UsageError&) {  // no legal size
    }
  }
  std::stable_sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.nodes < b.nodes; });
  return steps;
}

}  // namespace lockstep::predict
