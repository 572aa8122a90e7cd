#pragma once
#include <cstdint>
#include <string>

#include "config/frozen_parameters.h"
#include "core/options.h"

namespace lockstep::tasks {

/// Which towers of a CLIP model are not trained.
struct TowerLockOptions {
  bool lock_image = false, lock_image_freeze_bn_stats = false;  // --lock-image, --lock-image-freeze-bn-stats
  bool lock_text = false, lock_text_freeze_layer_norm = false;  // --lock-text, --lock-text-freeze-layer-norm
  int64_t lock_image_unlocked_groups = 0;                       // --lock-image-unlocked-groups
  int64_t lock_text_unlocked_layers = 0;                        // --lock-text-unlocked-layers
  std::string cache_locked_features;                            // --cache-locked-features SIZE; "" = off

  config::TowerLocks tower_locks() const {
    return {.image = lock_image,
            .text = lock_text,
            .image_unlocked_groups = lock_image_unlocked_groups,
            .text_unlocked_groups = lock_text_unlocked_layers,
            .freezes_batch_norm = lock_image_freeze_bn_stats,
            .text_layer_norms = lock_text_freeze_layer_norm};
  }
  void declare(core::OptionSet& set, const std::string& task);
  void check(const core::OptionSet& set, const std::string& task) const;
};

}  // namespace lockstep::tasks
