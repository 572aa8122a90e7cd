#pragma once
#include <optional>

#include "commands/commands.h"

namespace lockstep::cli {

/// Prints what a training command would do as far as it is known without tensors, data and devices, the options that
/// differ from their defaults and warnings (also of named files that are not here), as text or (--json) as one object.
/// The number of ranks is
/// --world-size, else what `launched` or the surroundings say.
int print_dry_run(const commands::ParsedCommand& command,
                  const std::optional<tasks::WorldSize>& launched = std::nullopt);

}  // namespace lockstep::cli
