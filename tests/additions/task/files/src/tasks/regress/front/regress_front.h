#pragma once
#include <memory>
#include <string>

#include "tasks/tasks.h"

namespace lockstep::tasks {

/// `train regress`: a linear regressor.
std::unique_ptr<FrontTask> make_regress_front(const std::string& name);

}  // namespace lockstep::tasks
