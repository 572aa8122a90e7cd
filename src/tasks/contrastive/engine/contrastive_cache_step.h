#pragma once
#include <memory>

#include "train/step_runner.h"

namespace lockstep::tasks {

/// --accum-freq of the contrastive tasks: all micro-batches of all ranks are one batch of pairs, with the memory of one
/// micro-batch (GradCache, Gao et al. 2021). Micro-batches 1.. run forward without gradient; micro-batch 0 keeps its
/// graph. The loss is computed once over the joined features; its gradient with respect to the features is carried
/// through micro-batch 0, then each other one is run again and carried through. 2 k - 1 forward passes, k backward
/// passes, one loss. The gradient of every parameter, logit_scale's too, is that of the one big batch (OpenCLIP
/// computes the loss k times and its logit_scale gradient is k times too large).
std::unique_ptr<train::StepRunner> make_contrastive_cache_step(const train::StepRunnerParts& parts);

}  // namespace lockstep::tasks
