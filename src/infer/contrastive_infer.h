#pragma once
#include "config/infer_options.h"

namespace lockstep::infer {

/// `infer embed`: L2-normalised fp32 features as safetensors, key "image" or "audio" [files in the order of
/// their names, E] and key "text" [lines, E].
void embed(const config::InferOptions& options);

/// `infer caption`: one JSON object per picture {"file", "caption"} to --output or standard output. UsageError for a
/// model without a decoder.
void caption(const config::InferOptions& options);

/// `infer classify`: one JSON object per picture or sound {"file", "classes": [{"name", "probability"}, ...]} to
/// --output or standard output; probabilities are the softmax of scale x cosine over all classes.
void classify(const config::InferOptions& options);

}  // namespace lockstep::infer
