#pragma once
#include "core/options.h"

namespace lockstep::spec {

/// Flags of OpenCLIP's trainer (release 3.3.0 and its development version) that `train clip` knows and refuses, with what to use
/// instead.
void refuse_openclip_flags(core::OptionSet& set);

}  // namespace lockstep::spec
