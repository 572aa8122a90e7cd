#pragma once
#include "sweep/point_scope.h"
#include "sweep/points.h"

namespace lockstep::sweep {

/// The [slurm] settings of a point as options of sbatch and srun. UsageError for unknown keys (with the nearest) and
/// for values that cannot be. `can_save`: the command saves a checkpoint when it is asked to stop.
SlurmRequest make_slurm_request(const std::vector<Setting>& settings, const PointScope& scope, const std::string& path,
                                bool can_save);

}  // namespace lockstep::sweep
