#pragma once
#include <cstdint>
#include <set>
#include <string>

#include "config/clip_shape.h"
#include "config/contrastive_shape.h"
#include "config/flops.h"

namespace lockstep::config {

/// Which towers keep their weights (--lock-image, --lock-text), and how many groups at their outputs are trained all
/// the same (image_layer_groups, and the like of text towers).
struct TowerLocks {
  bool image = false, text = false;
  int64_t image_unlocked_groups = 0, text_unlocked_groups = 0;
  bool freezes_batch_norm = false;  ///< --lock-image-freeze-bn-stats.
  bool text_layer_norms = false;    ///< Of a text tower of Hugging Face: else its layer norms are trained all the same.
};

/// Names of the parameters that stay as they are. More unlocked groups than there are: all are trained. UsageError for
/// unlocked groups of a ModifiedResNet, as in OpenCLIP, and of a tower whose batch norm is to keep its statistics.
std::set<std::string> frozen_parameters(const ClipShape& shape, const TowerLocks& locks);

/// The same; CLAP models have no locks.
std::set<std::string> frozen_parameters(const ContrastiveShape& shape, const TowerLocks& locks);

/// Forward work of one pair of which three times is the work of training: a locked tower computes no backward pass, one
/// locked in part counts by the share of its parameters that is trained.
FlopCount trained_forward(const ClipShape& shape, const TowerLocks& locks);

}  // namespace lockstep::config
