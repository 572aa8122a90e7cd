#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>

#include "comm/world.h"
#include "config/contrastive_shape.h"
#include "config/train_options.h"
#include "plan/batch_plan.h"
#include "train/task_kit.h"

namespace lockstep::train {

/// `train clip` and `train clap`. References outlive the kit.
std::unique_ptr<TaskKit> make_contrastive_kit(const config::TrainOptions& options, comm::World& world,
                                              at::Device device, const plan::BatchPlan& batch);

}  // namespace lockstep::train
