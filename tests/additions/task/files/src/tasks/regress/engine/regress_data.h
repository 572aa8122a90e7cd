#pragma once
#include <memory>

#include "plan/batch_plan.h"
#include "tasks/regress/front/regress_options.h"
#include "train/batch_source.h"

namespace lockstep::tasks {

/// Samples of a linear law with noise, each a function of (seed, number of the sample) alone: a step has the same ones
/// on any number of ranks. Begins behind `position`; null: at the first.
std::unique_ptr<train::BatchSource> open_regress_data(const RegressOptions& options, const plan::BatchPlan& batch,
                                                      int rank, at::Device device, const core::Json& position);

}  // namespace lockstep::tasks
