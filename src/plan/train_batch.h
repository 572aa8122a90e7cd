#pragma once
#include "config/commands.h"
#include "plan/batch_plan.h"

namespace lockstep::plan {

/// How the batch flags of a training command share out samples over this many ranks: each of them a data rank, but for
/// `train gpt`, whose layout says. Without --global-batch-size the defaults of --batch-size and --accum-freq count,
/// with it only what the user gave. UsageError with the nearest legal values on a misfit.
BatchPlan train_batch_plan(const config::ParsedCommand& command, int64_t num_ranks);

}  // namespace lockstep::plan
