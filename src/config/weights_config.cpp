#include "config/weights_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "core/error.h"
#include "core/safetensors.h"

namespace lockstep::config {
namespace fs = std::filesystem;
namespace {

std::optional<std::string> config_in_metadata(const fs::path& weights) {
  if (weights.extension() != ".safetensors") return std::nullopt;
  try {
    const core::SafetensorsFile file(weights);
    const auto found = file.metadata().find(kWeightsConfigKey);
    return found == file.metadata().end() ? std::nullopt : std::optional(found->second);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<fs::path> weights_in_folder(const fs::path& folder) {
  std::error_code ignored;
  for (const std::string_view name : kWeightNamesOfFolders)
    if (fs::is_regular_file(folder / name, ignored)) return folder / name;
  return std::nullopt;
}

fs::path config_beside(const fs::path& weights) {
  const std::string name = weights.filename().string();
  if (std::find(kWeightNamesOfFolders.begin(), kWeightNamesOfFolders.end(), name) != kWeightNamesOfFolders.end())
    return weights.parent_path() / "config.json";
  return fs::path(weights).replace_extension(".json");
}

core::Json read_weights_config(const fs::path& weights) {
  std::error_code ignored;
  if (weights.empty() || !fs::is_regular_file(weights, ignored)) return nullptr;
  if (const auto text = config_in_metadata(weights))
    return core::parse_json(*text, fmt::format("'{}' in the metadata of '{}'", kWeightsConfigKey, weights.string()));
  const fs::path beside = config_beside(weights);
  return fs::is_regular_file(beside, ignored) ? core::read_json_file(beside) : core::Json(nullptr);
}

}  // namespace lockstep::config
