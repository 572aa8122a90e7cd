#pragma once
#include "core/options.h"

namespace lockstep::tasks {

/// Flags of OpenCLIP's trainer (release 3.3.0 and its development version) and of LAION's CLAP that `train clip` and
/// `train clap` have no field for: refused with what to use instead, or taken without effect; and the flags of the
/// other of the two commands.
void declare_openclip_foreign_flags(core::OptionSet& set, bool is_clap);

}  // namespace lockstep::tasks
