#pragma once
#include <cstdint>
#include <set>
#include <string>

#include "config/clip_shape.h"
#include "config/contrastive_shape.h"
#include "config/flops.h"

namespace lockstep::config {

/// Which towers keep their weights (--lock-image, --lock-text), and how many groups at their outputs are trained all
/// the same. Groups of a tower: embeddings (with the norm behind them), each block, the last block with the last norm,
/// the projection.
struct TowerLocks {
  bool image = false, text = false;
  int64_t image_unlocked_groups = 0, text_unlocked_groups = 0;
  bool text_layer_norms = false;  ///< Of a text tower of Hugging Face: else its layer norms are trained all the same.
};

/// Names of the parameters that stay as they are. More unlocked groups than there are: all are trained. UsageError for
/// unlocked groups of an image tower that is no ViT, as in OpenCLIP.
std::set<std::string> frozen_parameters(const ClipShape& shape, const TowerLocks& locks);

/// The same; CLAP models have no locks.
std::set<std::string> frozen_parameters(const ContrastiveShape& shape, const TowerLocks& locks);

/// Forward work of one pair of which three times is the work of training: a locked tower computes no backward pass, one
/// locked in part counts by the share of its parameters that is trained.
FlopCount trained_forward(const ClipShape& shape, const TowerLocks& locks);

}  // namespace lockstep::config
