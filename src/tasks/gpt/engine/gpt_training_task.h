#pragma once
#include "tasks/tasks.h"
#include "train/train_run.h"

namespace lockstep::tasks {

/// `train gpt`: next-token prediction on a mesh of tensor, pipeline and data ranks. Arguments outlive the result. Its
/// task is a UsageError for layouts that do not divide and for options that have no engine yet.
train::TrainRequest gpt_train_request(const FrontTask& task, const core::OptionSet& set);

}  // namespace lockstep::tasks
