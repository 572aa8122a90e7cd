#include "predict/plan_sizes.h"

#include <fmt/format.h>

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

std::string bubble_text(const std::vector<PlannedStep>& steps) {
  constexpr double kMuch = 0.1;
  const auto idle_share = [](const PlannedStep& step) { return step.bubble / (1 + step.bubble); };
  const PlannedStep& worst = *std::max_element(
      steps.begin(), steps.end(), [](const PlannedStep& a, const PlannedStep& b) { return a.bubble < b.bubble; });
  if (worst.pp == 1 || idle_share(worst) <= kMuch) return "";
  return fmt::format(
      "At {} {} the pipeline idles for {:.0f} % of its time. That follows from the batch: a global batch of {} is {} "
      "{} "
      "for {} stages. --samples-per-device N or `-- --global-batch-size N` take another batch.",
      worst.nodes, worst.nodes == 1 ? "node" : "nodes", 100 * idle_share(worst), worst.global_batch, worst.num_micro,
      worst.num_micro == 1 ? "micro-batch" : "micro-batches", worst.pp);
}

}  // namespace lockstep::predict
