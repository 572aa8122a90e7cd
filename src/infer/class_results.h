#pragma once
#include <ATen/core/TensorBody.h>

#include <filesystem>
#include <string>
#include <vector>

#include "config/infer_options.h"
#include "infer/bad_samples.h"

namespace lockstep::infer {

/// One JSON object per file {"file", "classes": [{"name", "probability"}, ...]}, the most probable --top-k classes
/// first, to --output or standard output; {"file", "error"} for those in `bad`. `probability_NK` is fp32 on the CPU.
void write_class_results(const at::Tensor& probability_NK, const std::vector<std::string>& names,
                         const std::vector<std::filesystem::path>& files, const BadSamples& bad,
                         const config::InferOptions& options);

}  // namespace lockstep::infer
