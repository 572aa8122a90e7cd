#pragma once
#include <optional>
#include <string>

#include "core/options.h"

namespace lockstep::tasks {

/// Sets the options of `set` that say what model weights belong to and how its input is prepared to those of the run of
/// CLIP or CLAP that `weights` is of (its folder, its checkpoints/, a checkpoint, or a file in one); what the user has
/// given stays. False where no record of such a run is there.
bool take_recorded_model(core::OptionSet& set, const std::string& weights);

}  // namespace lockstep::tasks
