#pragma once
#include <memory>

#include "train/log_format.h"

namespace lockstep::tasks {

/// Log lines of Megatron-LM.
std::unique_ptr<train::LogFormat> make_gpt_log_format();

}  // namespace lockstep::tasks
