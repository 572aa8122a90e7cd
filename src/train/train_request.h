#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "comm/world.h"
#include "config/run_options.h"
#include "core/options.h"
#include "plan/batch_plan.h"
#include "train/training_task.h"

namespace lockstep::train {

/// Versions of this build; empty: without.
struct SoftwareVersions {
  std::string lockstep, libtorch, cuda, nccl;
};

/// A run as its command line asks for it. References outlive the run.
struct TrainRequest {
  const config::RunOptions& options;
  const core::OptionSet& set;  ///< Every option, for the record, and to see that all ranks have the same.
  config::RunFacts facts;
  std::vector<std::string> warnings = {};  ///< Of the command line.
  std::function<plan::BatchPlan(int64_t num_ranks)> plan_batch;
  /// The memory of a rank as the dry run plans it, in one line; empty: not known.
  std::function<std::string(int64_t num_ranks)> planned_memory = {};
  /// Called on rank 0 with each whole checkpoint, in the thread that writes them; what it throws is a warning.
  checkpoint::SavedFunction on_checkpoint = {};
  checkpoint::SavedFunction on_removal = {};  ///< The same before one is removed.
  /// Collective; the result is destroyed before its arguments.
  std::function<std::unique_ptr<TrainingTask>(comm::World&, at::Device, const plan::BatchPlan&)> make_task;
};

}  // namespace lockstep::train
