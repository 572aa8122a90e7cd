#pragma once
#include <string>

#include "core/options.h"
#include "tasks/imagenet/front/imagenet_options.h"

namespace lockstep::tasks {

/// With --evaluate of a run of `train imagenet`, or of one of its checkpoints: sets network, number of classes and
/// preparation of pictures to those that the run was trained with, but for what the user has given. Other numbers would
/// be of other pictures than its own evaluations. Returns a notice that names what was set; "" where that is nothing,
/// or no record of such a run is there.
std::string take_recorded_evaluation(const ImagenetOptions& options, core::OptionSet& set);

}  // namespace lockstep::tasks
