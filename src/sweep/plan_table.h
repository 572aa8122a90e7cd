#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/json.h"
#include "sweep/points.h"

namespace lockstep::sweep {

/// Node-hours of a plan when every job uses its whole time limit; points without one are counted apart.
struct PlannedCost {
  double node_hours = 0;
  std::map<std::string, double> device_hours{};  ///< By unit; empty where not every point says its devices.
  int64_t num_without_limit = 0;
};
PlannedCost planned_cost(const Plan& plan);
/// The GPUs that a node of this point is asked for (gpus-per-node, gres), else its cores (cpus-per-task).
NodeDevices devices_of_node(const Point& point);

/// The points as a table in the order of submission, with batch, time limit and node-hours, and what they cost
/// together.
std::string plan_table(const Plan& plan);
core::Json plan_json(const Plan& plan);

/// Rows as text in columns, the first row being the head. Numbers are set right.
std::string text_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace lockstep::sweep
