#pragma once
#include <string>

#include "config/commands.h"
#include "core/error.h"

namespace lockstep::train {

/// Versions of this build; empty: without.
struct SoftwareVersions {
  std::string lockstep, libtorch, cuda, nccl;
};

/// `train TASK`: joins the ranks, builds network, data, optimiser and record from the options, and trains. Returns kOk
/// or kRequeue; errors are thrown and noted in the run record.
ExitCode train(const config::ParsedCommand& command, const SoftwareVersions& versions);

}  // namespace lockstep::train
