#pragma once
#include <ATen/core/TensorBody.h>

#include <functional>
#include <memory>
#include <string>

#include "comm/comm.h"
#include "config/contrastive_shape.h"
#include "config/tower_weights.h"
#include "models/two_towers.h"
#include "train/precision.h"

namespace lockstep::tasks {

struct TowersConfig {
  const train::Precision* precision = nullptr;
  at::Device device = at::kCPU;
  /// Weights (see config::pretrained_file); "": parameters drawn from `seed`.
  std::string pretrained = {};
  std::string pretrained_flag = "--pretrained";  ///< That named them, for messages.
  config::TowerWeightNames tower_weights = {};   ///< Of towers that were trained alone.
  uint64_t seed = 0;
  bool grad_checkpointing = false;
  bool exact_shortcuts = true;      ///< See models::ClipModelOptions.
  bool freezes_batch_norm = false;  ///< CLIP: see models::ImageTower::freeze_batch_norm.
  comm::Comm* batch_norm_ranks = nullptr;
  /// Rank 0 of this group reads the files and sends it to the others; nullptr: this process reads.
  comm::Comm* broadcast_from = nullptr;
  /// What all ranks call while it reads (World::wait_for_rank_zero), which may take longer than a collective.
  std::function<void()> wait_for_reader = {};
};

/// A CLIP or CLAP network on its device with its parameters: from a file or drawn, in the types of the precision.
/// Collective over `broadcast_from`.
std::unique_ptr<models::TwoTowers> build_towers(const config::ContrastiveShape& shape, const TowersConfig& config);

}  // namespace lockstep::tasks
