#pragma once
#include <string>

#include "core/options.h"
#include "tasks/imagenet/front/imagenet_options.h"

namespace lockstep::tasks {

/// With --evaluate or --pretrained of a run of `train imagenet`, of one of its checkpoints, or of weights that bring
/// their configuration along: sets the preparation of pictures, and with --evaluate network and number of classes, too,
/// to those of the weights, but for what the user has given. Other pictures would not be those that the network knows.
/// Returns a notice that names what was set; "" where that is nothing, or nothing tells it.
std::string take_recorded_pictures(const ImagenetOptions& options, core::OptionSet& set);

/// With --evaluate of such weights whose run was not told the number of classes: the number that its network had.
void take_recorded_classes(ImagenetOptions& options, core::OptionSet& set);

}  // namespace lockstep::tasks
