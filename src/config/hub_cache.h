#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::config {

/// Where programs keep what they have fetched: $XDG_CACHE_HOME, else ~/.cache.
std::filesystem::path home_cache();

/// The folder that --cache-dir names, which this process looks at before all others; "": none. As OpenCLIP's it is a
/// cache of the Hub and holds the files that OpenCLIP fetches from other places, too.
void look_first_in(const std::filesystem::path& folder);

/// A file that OpenCLIP fetches from another place than the Hub: in that folder, else in its own cache, clip below
/// home_cache().
std::optional<std::filesystem::path> find_in_openclip_caches(std::string_view file);

/// The first of `files` that a revision of `repository` ("ORG/NAME") has in a local cache of the Hugging Face Hub
/// (look_first_in(), HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub, huggingface/hub below home_cache()); the
/// revision "main" is looked at first. Nothing is downloaded.
std::optional<std::filesystem::path> find_in_hub_caches(std::string_view repository,
                                                        std::span<const std::string_view> files);
/// Those caches, for messages.
std::string hub_cache_places();

}  // namespace lockstep::config
