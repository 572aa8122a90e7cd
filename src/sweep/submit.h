#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include "sweep/slurm.h"
#include "sweep/sweep_state.h"

namespace lockstep::sweep {

/// Submits the jobs of these points in this order; call with the lock held. sweep.json is written before and after each
/// sbatch, so that nothing is submitted twice or lost, whenever this process ends; SIGINT and SIGTERM stop it between
/// two jobs. Returns how many points were submitted.
///
/// Jobs: at most in_flight of the sweep wait or run unhindered, the others depend (afterany) on the one that many
/// places before. Singleton: one name, one at a time. Arrays: points with the same request share an array (%in_flight);
/// arrays follow one another when there is a limit.
size_t submit_points(const std::filesystem::path& folder, SweepState& state, const std::vector<int64_t>& indexes,
                     const Slurm& slurm);

/// Cancels the jobs of points that wait or run, and notes it; returns how many. A cancelled job is not requeued.
size_t cancel_points(const std::filesystem::path& folder, SweepState& state, const Slurm& slurm);

/// Gives points whose submission was cut off, and points without any job (sweep.json was written anew), the jobs that
/// carry their comment. A cut-off point without one counts as planned. When a taken job was submitted is not known: 0
/// for a point that had none.
void recover_submissions(const std::filesystem::path& folder, SweepState& state,
                         const std::map<std::string, QueueEntry>& queue);

}  // namespace lockstep::sweep
