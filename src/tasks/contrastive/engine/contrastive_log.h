#pragma once
#include <cstdint>
#include <memory>

#include "train/log_format.h"

namespace lockstep::tasks {

/// Log lines of OpenCLIP. Above 0, the losses in brackets are exponential means over so many samples, else means of the
/// epoch so far.
std::unique_ptr<train::LogFormat> make_contrastive_log_format(int64_t loss_horizon_samples);

}  // namespace lockstep::tasks
