#pragma once
#include "config/infer_options.h"

namespace lockstep::infer {

/// `infer classify` with a trained classifier of `train imagenet` or torchvision: see write_class_results.
/// Probabilities are the softmax of its scores.
void classify_pictures(const config::InferOptions& options);

}  // namespace lockstep::infer
