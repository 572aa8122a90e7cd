#include "models/weights_folder.h"

#include <ATen/core/Tensor.h>

#include <map>
#include <unordered_map>

#include "core/error.h"
#include "core/json.h"

namespace lockstep::models {
namespace fs = std::filesystem;
namespace {

/// Names of tensors by the file that holds them.
std::map<std::string, std::vector<std::string>> read_index(const fs::path& path) {
  const core::Json index = core::read_json_file(path);
  const auto bad = [&](const std::string& what) {
    return DataError(fmt::format("models: '{}': {}", path.string(), what), "copy the file again");
  };
  if (!index.is_object() || !index.contains("weight_map") || !index.at("weight_map").is_object())
    throw bad("no object 'weight_map', which gives each tensor its file");
  std::map<std::string, std::vector<std::string>> names;
  for (const auto& [name, file] : index.at("weight_map").items()) {
    if (!file.is_string()) throw bad(fmt::format("tensor '{}' has the file {}, expected a name", name, file.dump()));
    const fs::path file_name = file.get<std::string>();
    if (file_name.empty() || file_name != file_name.filename())
      throw bad(fmt::format("tensor '{}' has the file '{}', expected a name without folder", name, file_name.string()));
    names[file_name.string()].push_back(name);
  }
  if (names.empty()) throw bad("'weight_map' names no tensor");
  return names;
}

fs::path find_index(const fs::path& folder) {
  fs::path index = folder / kWeightsIndexName;
  if (!fs::exists(index))
    throw CheckpointError(fmt::format("models: '{}' holds no weights: neither {} nor {} is there", folder.string(),
                                      kWeightsName, kWeightsIndexName),
                          "name a folder that Hugging Face's save_pretrained wrote");
  return index;
}

}  // namespace

std::vector<fs::path> weight_files(const fs::path& folder) {
  if (fs::exists(folder / kWeightsName)) return {folder / kWeightsName};
  std::vector<fs::path> files;
  for (const auto& [file, names] : read_index(find_index(folder))) files.push_back(folder / file);
  return files;
}

WeightFile read_weight_folder(const fs::path& folder) {
  if (fs::exists(folder / kWeightsName)) return read_weights(folder / kWeightsName);
  const fs::path index = find_index(folder);
  WeightFile all{.path = index, .tensors = {}, .ignored = {}, .epoch = {}};
  for (const auto& [file, names] : read_index(index)) {
    if (!fs::exists(folder / file))
      throw DataError(fmt::format("models: '{}' names the file '{}', which is not there", index.string(), file),
                      "copy the whole folder");
    WeightFile part = read_weights(folder / file);
    std::unordered_map<std::string, at::Tensor> values(part.tensors.begin(), part.tensors.end());
    for (const std::string& name : names) {
      const auto found = values.find(name);
      if (found == values.end())
        throw DataError(fmt::format("models: '{}' lacks the tensor '{}', which {} says it holds",
                                    (folder / file).string(), name, kWeightsIndexName),
                        "the files of the folder belong to different models: copy all of them again");
      all.tensors.emplace_back(name, found->second);
    }
    all.ignored.insert(all.ignored.end(), part.ignored.begin(), part.ignored.end());
  }
  return all;
}

}  // namespace lockstep::models
