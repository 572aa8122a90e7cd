#pragma once
#include "config/generate_options.h"

namespace lockstep::infer {

/// `infer generate`: each prompt with its continuation, or one JSON object {"prompt", "text", "ids", "stopped"} per
/// prompt, to --output or standard output.
void generate(const config::GenerateOptions& options);

}  // namespace lockstep::infer
