#include "predict/machine_notes.h"

#include <fmt/format.h>

#include <vector>

#include "core/strings.h"

namespace lockstep::predict {

bool has_nodes(const std::optional<Machine>& machine, double nodes) {
  constexpr double kRounded = 1e-6;  // devices over those of a node
  return !machine || !machine->num_nodes || nodes <= static_cast<double>(*machine->num_nodes) + kRounded;
}

std::string missing_nodes_text(const Machine& machine, const std::string& sizes) {
  return fmt::format("{} has {} nodes: {} do not exist.", machine.name, *machine.num_nodes, sizes);
}

void note_size_unit(CurvePrediction& prediction) {
  MeasuredCurve& curve = prediction.curve;
  if (curve.size_name == "nodes" || prediction.targets.empty()) return;
  const Target& last = prediction.targets.back();
  curve.notes.push_back(
      fmt::format("--nodes counts {0} here, as the input does: {1:g} {0} are {2:.4g} nodes of {3:g} ({4}).",
                  curve.size_name, last.size, last.at.nodes, curve.devices_per_node, curve.devices_per_node_source));
}

void note_machine(const std::optional<Machine>& machine, bool is_asked, CurvePrediction& prediction) {
  if (!machine) return;
  MeasuredCurve& curve = prediction.curve;
  std::vector<std::string> missing;
  for (const Target& target : prediction.targets)
    if (!has_nodes(machine, target.at.nodes)) missing.push_back(fmt::format("{:g}", target.size));
  if (!missing.empty())
    curve.notes.push_back(missing_nodes_text(*machine, core::join(missing, ", ") + " " + curve.size_name));
  if (is_asked && !curve.work.parameters)
    curve.notes.push_back(fmt::format(
        "The model is not known: the rates of network, links and devices of {} are not used. --model NAME (or its "
        "parameters, 1.3B) would use them.",
        machine->name));
  curve.notes.insert(curve.notes.end(), machine->remarks.begin(), machine->remarks.end());
}

}  // namespace lockstep::predict
