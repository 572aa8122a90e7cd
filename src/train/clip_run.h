#pragma once
#include "core/error.h"
#include "spec/commands.h"

namespace lockstep::train {

/// `train clip`: joins the ranks, builds network, data, optimiser and record from the options, and trains. Returns kOk or kRequeue; errors are thrown and
/// noted in the run record.
ExitCode train_clip(const spec::ParsedCommand& command, const std::string& code_version);

}  // namespace lockstep::train
