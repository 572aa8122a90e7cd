#pragma once
#include "tasks/contrastive/front/contrastive_options.h"
#include "tasks/front/dry_run.h"

namespace lockstep::tasks {

/// What `train clip` or `train clap` would do: batch, steps, model, gradient buckets, memory; warns of files that are
/// not here.
DryRunPage contrastive_dry_run(const ContrastiveOptions& options, const core::OptionSet& set, const WorldSize& world);

}  // namespace lockstep::tasks
