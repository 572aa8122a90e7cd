#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "sweep/run_outcome.h"
#include "sweep/slurm.h"
#include "sweep/sweep_state.h"

namespace lockstep::sweep {

/// What can be known of a point from one look at its jobs.
struct PointView {
  /// Times its jobs had nodes, ends filled where only SLURM or the heartbeat knows them.
  std::vector<JobSpan> spans{};
  bool has_estimated_end = false;  ///< An end is the last heartbeat, or the present for a running job.
  /// Of the first job, from its submission, or the end of the job it had to follow, to its start.
  std::optional<double> queue_wait_s{};
  double node_hours = 0;  ///< Over all spans, failed ones included.
  std::optional<int64_t> steps_done{};
};

/// What SLURM says: the queue, and ended jobs of the points whose end nobody else knows.
struct SlurmView {
  std::map<std::string, QueueEntry> queue{};
  std::map<std::string, std::vector<PastJob>> history{};
};

/// Brings the states of points up to date from the records of their runs (the truth), the lines of their job scripts,
/// and SLURM (which explains what is missing). `slurm` is nullptr for sweeps that never used
/// it, and where it could not be asked.
void refresh(const std::filesystem::path& folder, SweepState& state, const SlurmView* slurm, double now_s);

/// Asks SLURM about the jobs of the sweep.
SlurmView look_at_slurm(const std::filesystem::path& folder, const SweepState& state, const Slurm& slurm);

/// One view per point, in their order.
std::vector<PointView> view_points(const std::filesystem::path& folder, const SweepState& state, const SlurmView* slurm,
                                   double now_s);

/// One line per point, and how many are in each state.
std::string status_table(const std::filesystem::path& folder, const SweepState& state, const SlurmView* slurm,
                         double now_s);
core::Json status_json(const std::filesystem::path& folder, const SweepState& state, const SlurmView* slurm,
                       double now_s);

/// Points that nobody may start though they have no job: their heartbeat is alive, so a job that was lost with an older
/// sweep.json writes there.
std::vector<int64_t> held_back(const SweepState& state);

/// Points of which something may be there that cannot be read, at the last `refresh`: they stand as they stood before,
/// and nobody may start those that seem never to have been started.
std::vector<int64_t> unknown_points(const SweepState& state);

/// `mode` of a sweep whose state was written anew, by the lines of its job scripts; empty when none has begun.
std::string started_mode(const std::filesystem::path& folder, const SweepState& state);

/// Points that `resume` starts again: everything that has neither finished nor a job and can be read, in the order of
/// submission.
std::vector<int64_t> resumable(const SweepState& state);

}  // namespace lockstep::sweep
