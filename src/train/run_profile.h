#pragma once
#include <cstdint>

#include "record/run_record.h"
#include "train/profiler.h"
#include "train/run_context.h"

namespace lockstep::train {

/// The profile of a run: traces of the chosen ranks over the chosen steps, and what rank 0 makes of them.
class RunProfile {
 public:
  /// UsageError for a rank that does not exist. `run` outlives it.
  explicit RunProfile(RunContext& run);
  /// Collective at the step behind the profile, where traces are written.
  void before_step(int64_t step);
  /// Rank 0 joins the traces and prints the tables; `record` is rank 0's. Collective.
  void finish(record::RunRecord* record);

 private:
  void summarise();

  RunContext& run_;
  StepProfiler profiler_;
};

}  // namespace lockstep::train
