#pragma once
#include "tasks/tasks.h"
#include "train/train_run.h"

namespace lockstep::tasks {

/// `train clip` and `train clap`. Arguments outlive the result.
train::TrainRequest contrastive_train_request(const FrontTask& task, const core::OptionSet& set);

}  // namespace lockstep::tasks
