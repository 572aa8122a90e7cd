#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace lockstep::config {

/// The file of weights that --pretrained names: a path that exists, as it is; "hf-hub:ORG/NAME", or a tag of OpenCLIP
/// 3.3.0 for `model` ("laion2b_s34b_b79k"), in the local caches of Hugging Face (HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE,
/// HF_HOME/hub, $XDG_CACHE_HOME or ~/.cache, then huggingface/hub) and of OpenCLIP (~/.cache/clip). Nothing is
/// downloaded: UsageError where it is not there, with the command that fetches it; `flag` is named in it.
std::filesystem::path pretrained_file(std::string_view flag, const std::string& named, std::string_view model);

}  // namespace lockstep::config
