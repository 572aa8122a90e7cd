#pragma once
#include <string>
#include <vector>

#include "cli/front/dry_run.h"

namespace lockstep::cli {

/// What `train gpt` would do: mesh, who holds what, schedule with its drawing, bubble, memory and messages of each
/// stage.
struct GptDryRun {
  std::vector<DryRunFact> facts;
  core::Json stages;   ///< Array: layers, parameters and bytes of one rank of each stage.
  std::string tables;  ///< The same and the messages as people read them.
  std::vector<std::string> warnings;
};
GptDryRun gpt_dry_run(const config::ParsedCommand& command, const WorldGuess& world);

}  // namespace lockstep::cli
