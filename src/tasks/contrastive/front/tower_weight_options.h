#pragma once
#include <string>
#include <vector>

#include "core/options.h"

namespace lockstep::tasks {

/// Weights that single towers begin with.
struct TowerWeightOptions {
  std::string pretrained_text;    // --pretrained-text NAME|PATH|none
  bool pretrained_image = false;  // --pretrained-image
  std::string pretrained_audio;   // --pretrained-audio FILE
  std::string cache_dir;          // --cache-dir DIR

  void declare(core::OptionSet& set, const std::string& task);
  void check(const core::OptionSet& set, const std::string& task) const;
};

}  // namespace lockstep::tasks
