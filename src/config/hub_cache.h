#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::config {

/// Where programs keep what they have fetched: $XDG_CACHE_HOME, else ~/.cache.
std::filesystem::path home_cache();

/// The first of `files` that a revision of `repository` ("ORG/NAME") has in a local cache of the Hugging Face Hub
/// (HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub, huggingface/hub below home_cache()); the revision "main" is
/// looked at first. Nothing is downloaded.
std::optional<std::filesystem::path> find_in_hub_caches(std::string_view repository,
                                                        std::span<const std::string_view> files);
/// Those caches, for messages.
std::string hub_cache_places();

}  // namespace lockstep::config
