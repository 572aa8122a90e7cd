#pragma once
#include <string>

#include "tasks/imagenet/front/imagenet_options.h"

namespace lockstep::tasks {

/// A warning where the network gets ImageNet's 1000 classes by default, and an LMDB without names of classes says that
/// it has another number of them; else "".
std::string assumed_classes_warning(const ImagenetOptions& options);

}  // namespace lockstep::tasks
