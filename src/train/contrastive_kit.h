#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>

#include "comm/world.h"
#include "plan/batch_plan.h"
#include "spec/contrastive_shape.h"
#include "spec/train_options.h"
#include "train/task_kit.h"

namespace lockstep::train {

/// `train clip` and `train clap`. References outlive the kit.
std::unique_ptr<TaskKit> make_contrastive_kit(const spec::TrainOptions& options, comm::World& world, at::Device device,
                                              const plan::BatchPlan& batch);

}  // namespace lockstep::train
