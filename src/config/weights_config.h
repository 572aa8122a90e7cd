#pragma once
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>

#include "core/json.h"

namespace lockstep::config {

/// In the metadata of safetensors: the configuration of the weights as JSON, what a config.json would say.
inline constexpr const char* kWeightsConfigKey = "config";

/// Names of a file of weights in a folder as Hugging Face's save_pretrained writes it, the preferred one first.
inline constexpr std::array<std::string_view, 2> kWeightNamesOfFolders{"model.safetensors", "pytorch_model.bin"};

/// The first of them that is there.
std::optional<std::filesystem::path> weights_in_folder(const std::filesystem::path& folder);

/// The file with the configuration of a file of weights: config.json beside a name that Hugging Face gives,
/// beside others their own name with the ending .json.
std::filesystem::path config_beside(const std::filesystem::path& weights);

/// The configuration that a file of weights brings along: of its own metadata, else of the file beside it. Null where
/// there is none, and for what is no file. DataError for a text that is no JSON; weights that cannot be read bring
/// none, which whoever reads them tells.
core::Json read_weights_config(const std::filesystem::path& weights);

}  // namespace lockstep::config
