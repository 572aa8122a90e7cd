#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "core/options.h"

namespace lockstep::tasks {

/// Of `attempts`, which are not empty, the last that trained, or else the last: one that only evaluated (`--evaluate`)
/// may have been given another batch, or another preparation of pictures.
const core::Json& last_training(const core::Json& attempts);

/// The last attempt of a run that trained, or else the last: its task and options, what the task said of its network
/// (train::TaskFacts::model), and where they are written.
struct RecordedAttempt {
  std::string task;
  core::Json options, model;
  std::string source;
};

/// Of the run that `weights` is of (its folder, its checkpoints/, a checkpoint, model.safetensors in one, or an
/// epoch_K.pt beside them); nothing where no record of one is there.
std::optional<RecordedAttempt> recorded_attempt(const std::string& weights);

/// The names of the classes that the run of `weights` was trained on, in the order of their numbers, by its record or
/// by the configuration that a file brings along; empty where these tell none, or not so many.
std::vector<std::string> recorded_class_names(const std::string& weights, int64_t num_classes);

/// Sets flags of `set`, the first of each pair, to what the run was given as the flag that is the second; what the user
/// has given stays.
void take_recorded_options(core::OptionSet& set, const RecordedAttempt& attempt,
                           const std::vector<std::pair<std::string, std::string>>& flags);

}  // namespace lockstep::tasks
