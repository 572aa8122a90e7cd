#pragma once
#include <string_view>
#include <vector>

#include "plan/batch_plan.h"
#include "tasks/front/dry_run.h"

namespace lockstep::tasks {

/// What the page of a run over samples begins with: command, model, precision, ranks and batches. `sample_name`: of
/// one sample.
std::vector<DryRunFact> batch_facts(const core::OptionSet& set, const config::RunOptions& options,
                                    const WorldSize& world, const plan::BatchPlan& batch, std::string_view sample_name);

}  // namespace lockstep::tasks
