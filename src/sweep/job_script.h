#pragma once
#include <filesystem>
#include <string>

#include "sweep/points.h"
#include "sweep/sweep_state.h"

namespace lockstep::sweep {

/// The batch script of one point: readable, complete in itself, runs with plain sbatch too.
std::string job_script(const SweepState& state, const PointRecord& record, const Point& point,
                       const std::filesystem::path& folder);

/// The lines "#SBATCH ..." that points of one array must share.
std::string request_lines(const Point& point);

/// "#SBATCH --name=value", quoted as sbatch reads it. UsageError where it is not one line.
std::string sbatch_line(const std::string& option);

/// A word as bash reads it back unchanged.
std::string shell_word(const std::string& text);

}  // namespace lockstep::sweep
