#pragma once
#include <memory>

#include "train/log_format.h"

namespace lockstep::tasks {

/// Lines of PyTorch's ImageNet example: "Epoch: [0][  10/5005]", and " * Acc@1 71.123 Acc@5 90.456" of an evaluation.
std::unique_ptr<train::LogFormat> make_imagenet_log_format();

/// What one evaluation found, as lines: pictures, those that could not be read, top-1, top-5 and loss; of a run with
/// --model-ema beside those of its average.
std::string evaluation_table(const train::Metrics& metrics);

}  // namespace lockstep::tasks
