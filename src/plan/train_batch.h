#pragma once
#include "plan/batch_plan.h"
#include "spec/commands.h"

namespace lockstep::plan {

/// How --batch-size, --accum-freq and --global-batch-size of a training command share out samples over this many data ranks. Without
/// --global-batch-size their defaults count, with it only what the user gave. UsageError with the nearest legal values on a misfit.
BatchPlan train_batch_plan(const spec::ParsedCommand& command, int64_t num_data_ranks);

}  // namespace lockstep::plan
