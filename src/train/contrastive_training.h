#pragma once
#include <ATen/core/TensorBody.h>

#include "comm/comm.h"
#include "config/contrastive_shape.h"
#include "train/training.h"

namespace lockstep::train {

/// The network of --model with the contrastive loss over `data_axis`, on every rank the same parameters, and its steps.
/// Collective over `data_axis`, which must outlive it.
Training build_contrastive_training(const config::TrainOptions& options, const config::ContrastiveShape& shape,
                                    comm::Comm& data_axis, at::Device device, int64_t num_micro,
                                    const TrainingHooks& hooks = {});

}  // namespace lockstep::train
