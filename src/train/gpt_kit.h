#pragma once
#include <memory>

#include "comm/world.h"
#include "config/gpt_options.h"
#include "train/task_kit.h"

namespace lockstep::train {

/// What all tasks have of the options of `train gpt`, completed: model name, length, precision, checkpoints.
config::TrainOptions gpt_run_options(const config::GptOptions& options);

/// Next-token prediction on a mesh of tensor, pipeline and data ranks. Collective; UsageError for layouts that do not
/// divide and for options that have no engine yet. Arguments outlive the kit.
std::unique_ptr<TaskKit> make_gpt_kit(const config::GptOptions& options, comm::World& world, at::Device device);

}  // namespace lockstep::train
