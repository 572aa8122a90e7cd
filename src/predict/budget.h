#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "draw/document.h"
#include "predict/machine.h"
#include "predict/validation.h"

namespace lockstep::predict {

/// A goal and what it may take.
struct Budget {
  double units = 0;    ///< Samples, tokens or runs to be processed.
  std::string unit{};  ///< "samples", "tokens", "runs"
  double units_per_sample = 1;
  bool is_run_a_step = false;       ///< The times of the curve are of work that grows with the size: one is a run.
  std::string size_name = "nodes";  ///< What the sizes count.
  std::optional<double> deadline_hours{};
  std::optional<double> price_per_node_hour{};
  std::string currency{};  ///< Of the price; empty: not told.
};

/// A goal at one size. Steps alone: no start-up, evaluation, checkpoints or restarts.
struct GoalCost {
  double size = 0;
  double hours = 0, hours95 = 0;  ///< By the median step, and by its 95 % quantile.
  double node_hours = 0;
  std::optional<double> kwh{};
  std::optional<double> price{};
  bool fits = true;             ///< The memory of the device.
  bool exists = true;           ///< The machine has so many nodes, as far as it is known.
  bool meets_deadline = false;  ///< Even by the 95 % quantile; never of a size that does not exist.
};

/// `fits`: by size, whether the plan fits the memory; empty: all sizes fit. Energy where the machine is known.
std::vector<GoalCost> goal_costs(const CurvePrediction& prediction, const std::optional<Machine>& machine,
                                 const Budget& budget, const std::vector<bool>& fits = {});
draw::Table goal_table(const std::vector<GoalCost>& costs, const Budget& budget);
/// Which size to take, in sentences: the smallest that meets the deadline, the least node-hours.
std::vector<std::string> goal_texts(const std::vector<GoalCost>& costs, const Budget& budget);
core::Json goal_json(const std::vector<GoalCost>& costs);

}  // namespace lockstep::predict
