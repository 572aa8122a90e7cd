#pragma once
#include <memory>
#include <string>

#include "tasks/tasks.h"

namespace lockstep::tasks {

/// `train gpt`, by the task's name.
std::unique_ptr<FrontTask> make_gpt_front(const std::string& name);

}  // namespace lockstep::tasks
