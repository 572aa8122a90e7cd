#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace lockstep::config {

/// The file of weights that --pretrained names: a path that exists, as it is; "hf-hub:ORG/NAME", or a tag of OpenCLIP
/// 3.3.0 for `model` ("laion2b_s34b_b79k"), or "local-dir:DIR", in the local caches of Hugging Face (HF_HUB_CACHE,
/// HUGGINGFACE_HUB_CACHE, HF_HOME/hub, $XDG_CACHE_HOME or ~/.cache, then huggingface/hub) and of OpenCLIP
/// (~/.cache/clip). Nothing is downloaded: UsageError where it is not there, with the command that fetches it; `flag`
/// is named in it.
std::filesystem::path pretrained_file(std::string_view flag, const std::string& named, std::string_view model);

/// The models and tags of weights that --pretrained knows, and which lie in a local cache, for a terminal.
std::string pretrained_list();

/// A warning where weights that OpenCLIP 3.3.0 lists by a tag want the other kind of GELU than the model has
/// (x sigmoid(1.702 x) or the exact one); "" else. They load all the same, and are worse for it.
std::string gelu_warning(const std::string& named, std::string_view model, bool has_quick_gelu);

/// How pictures must be prepared for some weights, as far as that is not OpenAI's way (its mean and standard deviation,
/// bicubic, the shortest side to size): values of --image-mean, --image-std, --image-interpolation,
/// --image-resize-mode, --image-fill-color.
struct PicturePreparation {
  std::vector<double> mean, std;  ///< None or 3 values.
  std::optional<std::string> interpolation, resize_mode;
  std::optional<int64_t> fill_color = std::nullopt;  ///< 0 to 255.
};
/// Of a tag as OpenCLIP 3.3.0 lists it for `model`; of "hf-hub:ORG/NAME" and "local-dir:DIR" as `preprocess_cfg` of
/// their open_clip_config.json says. Empty for files, which do not tell. UsageError for such a file that cannot be
/// read.
PicturePreparation preparation_of_weights(const std::string& named, std::string_view model);
/// Whether preparation_of_weights knows these weights: a tag, or a configuration beside them. What it leaves empty is
/// then OpenAI's way.
bool tells_preparation(const std::string& named, std::string_view model);

/// Does --model name a configuration that lies beside its weights: "hf-hub:ORG/NAME", "local-dir:DIR"?
bool is_hub_model(std::string_view model);
/// Its open_clip_config.json, an object with `model_cfg`. UsageError where it is not there, with the command that
/// fetches it.
struct HubConfig {
  std::filesystem::path path;
  core::Json json;
};
HubConfig read_hub_config(std::string_view model);

}  // namespace lockstep::config
