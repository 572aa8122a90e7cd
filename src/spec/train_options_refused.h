#pragma once
#include "core/options.h"

namespace lockstep::spec {

/// Flags of OpenCLIP's trainer (release 3.3.0 and its development version) that `train TASK` knows and refuses, with what to use
/// instead, and the flags of the other task.
void refuse_openclip_flags(core::OptionSet& set, const std::string& task);

}  // namespace lockstep::spec
