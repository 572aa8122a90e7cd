#pragma once
#include "core/options.h"
#include "tasks/tasks.h"
#include "train/train_run.h"

namespace lockstep::tasks {

/// The run of `train imagenet`. Arguments outlive the result.
train::TrainRequest imagenet_train_request(const FrontTask& task, const core::OptionSet& set);

}  // namespace lockstep::tasks
