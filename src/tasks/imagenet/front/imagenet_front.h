#pragma once
#include <memory>
#include <string>

#include "tasks/tasks.h"

namespace lockstep::tasks {

/// `train imagenet`, and its other name `train resnet`: a classifier of pictures.
std::unique_ptr<FrontTask> make_imagenet_front(const std::string& name);

}  // namespace lockstep::tasks
