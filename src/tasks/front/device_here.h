#pragma once
#include <vector>

#include "config/run_options.h"
#include "core/error.h"
#include "core/options.h"

namespace lockstep::tasks {

/// What a run that starts on this machine asks of GPUs, where it has none: --device cuda, and the backend NCCL. The
/// refusals are hw::choose_device's.
std::vector<EnvironmentError> missing_devices(const config::RunOptions& options, const core::OptionSet& set);

}  // namespace lockstep::tasks
