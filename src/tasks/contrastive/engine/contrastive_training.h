#pragma once
#include <ATen/core/TensorBody.h>

#include <string>
#include <vector>

#include "comm/comm.h"
#include "config/contrastive_shape.h"
#include "models/two_towers.h"
#include "optim/adamw.h"
#include "tasks/contrastive/front/contrastive_options.h"
#include "train/training.h"

namespace lockstep::tasks {

/// The steps of a contrastive task.
struct ContrastiveTraining : train::Training {
  models::TwoTowers* towers = nullptr;  ///< The task's network.
};

/// One sentence for each value of a resumed file of OpenCLIP that differs from its flag.
std::vector<std::string> adamw_warnings(const ContrastiveOptions& options, const optim::AdamWConfig& of_file);

/// The network of --model with the contrastive loss over `data_axis`, on every rank the same parameters, and its steps:
/// several micro-batches are one batch of pairs (make_contrastive_cache_step). Collective over `data_axis`, which must
/// outlive it. UsageError for --grad-sync none on several ranks.
ContrastiveTraining build_contrastive_training(const ContrastiveOptions& options, const config::ContrastiveShape& shape,
                                               comm::Comm& data_axis, at::Device device, int64_t num_micro_batches,
                                               const train::TrainingHooks& hooks = {});

}  // namespace lockstep::tasks
