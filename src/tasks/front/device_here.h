#pragma once
#include "config/run_options.h"
#include "core/error.h"
#include "core/options.h"

namespace lockstep::tasks {

/// Adds what a run that starts on this machine asks of GPUs that it does not have: --device cuda, and the backend NCCL.
void check_device_here(const config::RunOptions& options, const core::OptionSet& set, UsageProblems& problems);

}  // namespace lockstep::tasks
