#pragma once
#include <string>
#include <vector>

#include "core/json.h"
#include "draw/document.h"
#include "predict/plan_step.h"

namespace lockstep::predict {

/// One run of a sweep: its whole command line and where it runs.
struct SweepPoint {
  std::string name{};
  std::vector<std::string> words{};  ///< "train", "clip", "--batch-size=64", ...
  int64_t nodes = 1, ranks_per_node = 1;
};

/// What a point is expected to take. Not calibrated: intervals are wide.
struct PredictedPoint {
  SweepPoint point{};
  PlannedStep plan{};
  Interval step_s{};
  bool fits = true;                             ///< The memory of the machine's devices.
  std::optional<double> hours{}, node_hours{};  ///< Of all its steps, by the median; where the command tells them.
};

/// Predicts every point on a machine, whose nodes hold as many ranks as the point says.
std::vector<PredictedPoint> predict_points(const std::vector<SweepPoint>& points, const Machine& machine);
draw::Table sweep_table(const std::vector<PredictedPoint>& points, const Machine& machine);
core::Json sweep_json(const std::vector<PredictedPoint>& points);

}  // namespace lockstep::predict
