#pragma once
#include <filesystem>
#include <vector>

#include "models/weights.h"

namespace lockstep::models {

inline constexpr const char* kWeightsName = "model.safetensors";
inline constexpr const char* kWeightsIndexName = "model.safetensors.index.json";

/// The weights of a folder as Hugging Face saves a model: model.safetensors, or the files among which
/// model.safetensors.index.json says every tensor lies. CheckpointError where there is neither; DataError for a damaged
/// index, a file that it names and that is not there, and a tensor that is not where the index says.
WeightFile read_weight_folder(const std::filesystem::path& folder);
/// The files that it reads.
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& folder);

}  // namespace lockstep::models
