#pragma once
#include <string>

#include "core/options.h"

namespace lockstep::tasks {

/// Sets the options of `infer classify` that say what weights belong to and how pictures are prepared to those of the
/// run of `train imagenet` that `weights` is of, or of the configuration that an exported file brings along; what the
/// user has given stays. False where neither is there.
bool take_recorded_classifier(core::OptionSet& set, const std::string& weights);

}  // namespace lockstep::tasks
