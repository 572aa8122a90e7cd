#pragma once
#include <optional>
#include <string>

#include "core/json.h"
#include "tasks/front/recorded_run.h"

namespace lockstep::tasks {

/// What `ckpt export` writes beside the weights of a classifier, in the form of timm's config.json: network, classes,
/// and in `pretrained_cfg` how pictures are prepared (input_size, crop_pct, interpolation, mean, std). Of the run of
/// `train imagenet` that `weights` is of, else what a file brings along that was exported before. Null where neither
/// is there.
core::Json classifier_config(const std::string& weights);

/// The options of `train imagenet` that the run of `weights` was given, else those that its configuration tells;
/// nothing where there is neither, or one of another network than --arch has. DataError for a configuration that
/// cannot be: a picture that is no square, say.
std::optional<RecordedAttempt> classifier_attempt(const std::string& weights);

}  // namespace lockstep::tasks
