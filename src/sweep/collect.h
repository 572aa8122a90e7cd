#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "sweep/follow.h"
#include "sweep/sweep_state.h"

namespace lockstep::sweep {

/// What a point brought, from its record and its jobs.
struct PointResult {
  const PointRecord* point = nullptr;
  PointView view{};
  int num_requeues = 0;      ///< Starts beyond the first of each job.
  int64_t num_steps = 0;     ///< Optimiser steps in the record.
  int64_t num_measured = 0;  ///< Those behind the medians: without the warm-up.
  std::optional<double> step_ms{},
      samples_per_s{};  ///< Median over the measured steps, and the rate that belongs to it.
  std::optional<double> step_ms_low{},
      step_ms_high{};  ///< 95 % interval of the median, where the steps are enough for one.
  std::optional<double> last_loss{};
  /// From the start of the job to the end of the first step, of the first start that made one.
  std::optional<double> startup_s{};
  std::optional<double> ran_s{};               ///< All starts together.
  std::map<std::string, double> startup_ms{};  ///< By phase, as the first start of the run noted it.
  std::map<std::string, double> bench{};       ///< Of a benchmark: the numbers of its summary.
  std::vector<std::string> problems{};         ///< Of its result, in words.
};

/// What the points of one node count say together.
struct SizeSummary {
  int64_t nodes = 0;
  int num_points = 0, num_finished = 0;
  std::optional<double> median_wait_s{}, max_wait_s{};
  double node_hours_planned = 0, node_hours_used = 0;
  std::optional<double> max_startup_s{}, max_ran_s{};
  int64_t time_limit_s = 0;                   ///< The longest asked for.
  std::optional<int64_t> proposed_limit_s{};  ///< From measured start-up and run time; nothing when no run finished.
};

struct Collection {
  std::vector<PointResult> results{};
  std::vector<SizeSummary> sizes{};
  double node_hours_planned = 0, node_hours_used = 0;
  std::map<std::string, double> device_hours_used{};  ///< By unit; empty where not every point says its devices.
  int num_jobs = 0, num_failed_jobs = 0;  ///< Starts of jobs, and those that ended neither well nor with a requeue.
};

Collection collect(const std::filesystem::path& folder, const SweepState& state, const SlurmView* slurm, double now_s);

/// Wall time for a next run of that size: half as much start-up again, 15 % more of the rest, and the time of the
/// checkpoint signal, rounded up to whole minutes (from 15 minutes on to five).
int64_t propose_time_limit(double startup_s, double ran_s, double stop_before_end_s);

std::string collection_csv(const SweepState& state, const Collection& collection);
core::Json collection_json(const SweepState& state, const Collection& collection);
std::string collection_text(const SweepState& state, const Collection& collection);

}  // namespace lockstep::sweep
