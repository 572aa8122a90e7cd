#pragma once
#include "core/options.h"
#include "tasks/tasks.h"
#include "train/train_run.h"

namespace lockstep::tasks {

/// The run of a task whose options `set` reads: the table behind it is the only place of the engine that makes a task
/// by its name. Arguments outlive the result.
train::TrainRequest train_request(const FrontTask& task, const core::OptionSet& set);

}  // namespace lockstep::tasks
