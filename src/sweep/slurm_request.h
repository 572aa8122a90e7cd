#pragma once
#include "sweep/point_scope.h"
#include "sweep/points.h"

namespace lockstep::sweep {

/// The [slurm] settings of a point as options of sbatch and srun. UsageError for unknown keys (with the nearest) and
/// for values that cannot be.
SlurmRequest make_slurm_request(const std::vector<Setting>& settings, const PointScope& scope, const std::string& path);

}  // namespace lockstep::sweep
