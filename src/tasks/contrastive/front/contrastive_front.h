#pragma once
#include <memory>
#include <string>

#include "tasks/tasks.h"

namespace lockstep::tasks {

/// `train clip` or `train clap`, by the task's name.
std::unique_ptr<FrontTask> make_contrastive_front(const std::string& name);

}  // namespace lockstep::tasks
