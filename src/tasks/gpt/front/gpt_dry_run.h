#pragma once
#include "tasks/front/dry_run.h"
#include "tasks/gpt/front/gpt_options.h"

namespace lockstep::tasks {

/// What `train gpt` would do: mesh, who holds what, schedule with its drawing, bubble, memory and messages of each
/// stage ("stages" of the JSON).
DryRunPage gpt_dry_run(GptOptions options, const core::OptionSet& set, const WorldSize& world);

}  // namespace lockstep::tasks
