#pragma once
#include "core/options.h"

namespace lockstep::tasks {

/// Flags of OpenCLIP's trainer (release 3.3.0 and its development version) that `train clip` and `train clap` know and
/// refuse, with what to use instead, and the flags of the other of the two.
void refuse_openclip_flags(core::OptionSet& set, bool is_clap);

}  // namespace lockstep::tasks
