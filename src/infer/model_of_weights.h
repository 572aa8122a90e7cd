#pragma once
#include "config/infer_options.h"

namespace lockstep::models {
struct WeightFile;
}

namespace lockstep::infer {

/// Sets --model, which was not given, to the classifier that the tensors of --pretrained belong to (of a ViT also the
/// size of its pictures), and completes and checks the options. Weights of a CLIP leave --model at its default.
/// UsageError that names --model where they are of neither.
void take_model_of_weights(config::InferOptions& options, core::OptionSet& set);

/// Classes of a classifier: the rows of the layer that gives its scores. DataError for other weights.
int64_t num_classes_of(const models::WeightFile& weights);

}  // namespace lockstep::infer
