#pragma once
#include <memory>

#include "train/log_format.h"

namespace lockstep::tasks {

/// Log lines of OpenCLIP.
std::unique_ptr<train::LogFormat> make_contrastive_log_format();

}  // namespace lockstep::tasks
