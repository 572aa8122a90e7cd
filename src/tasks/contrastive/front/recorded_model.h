#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "core/options.h"

namespace lockstep::tasks {

/// Sets the options of `set` that say what model weights belong to and how its input is prepared to those of the run of
/// CLIP or CLAP that `weights` is of (its folder, its checkpoints/, a checkpoint, or a file in one); what the user has
/// given stays. False where no record of such a run is there, or with `task` of one of that task.
bool take_recorded_model(core::OptionSet& set, const std::string& weights, std::string_view task = "");

/// Sets --precision of `set` to that of the run of `task` that `weights` is of, unless the user has given it.
void take_recorded_precision(core::OptionSet& set, const std::string& weights, std::string_view task);

/// How the optimiser of the run of CLIP was tuned that `weights` is of.
struct RecordedOptimizer {
  std::string name{};  ///< --opt
  double lr = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  bool has_update_groups = false;  ///< LayerDecayOptions or SplitOptimizerOptions: not all are updated by these alone.
};
/// Nothing where no record of such a run is there, or one that does not say it.
std::optional<RecordedOptimizer> recorded_optimizer(const std::string& weights);

}  // namespace lockstep::tasks
