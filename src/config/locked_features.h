#pragma once
#include <string>

#include "config/clip_shape.h"
#include "config/frozen_parameters.h"

namespace lockstep::config {

/// How a run uses its locked towers.
struct LockedTowerUse {
  TowerLocks locks = {};
  bool has_frozen_batch_norm = false;       ///< --lock-image-freeze-bn-stats
  bool has_random_image_transform = false;  ///< Pictures are cropped at random.
};

/// Why the features of a tower cannot be kept from one pass to the next; "": they can, because they depend on nothing
/// but the tower's input.
struct FeatureCacheRefusals {
  std::string image{}, text{};
};
FeatureCacheRefusals feature_cache_refusals(const ClipShape& shape, const LockedTowerUse& use);

}  // namespace lockstep::config
