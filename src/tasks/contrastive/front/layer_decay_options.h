#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/options.h"

namespace lockstep::tasks {

/// Which parameters are updated otherwise than --lr and --wd say.
struct LayerDecayOptions {
  std::optional<double> image_layer_decay, text_layer_decay;  // --image-layer-decay, --text-layer-decay
  std::vector<std::string> wd_exclude;                        // --wd-exclude PATTERN...

  bool has_update_groups() const { return image_layer_decay || text_layer_decay || !wd_exclude.empty(); }
  void declare(core::OptionSet& set, const std::string& task);
  void check(const core::OptionSet& set, const std::string& task) const;
};

}  // namespace lockstep::tasks
