#pragma once
#include <string>
#include <string_view>

namespace lockstep::config {

/// The hint of an error about a model or file that is not known: `hint`, or, where `name` is one of the Hugging Face
/// Hub
/// ("hf-hub:laion/CLIP-ViT-B-32-..."), how to fetch what it names, and `then`: which flags take it. Nothing here
/// downloads.
std::string hint_for_name(std::string_view name, const std::string& then, const std::string& hint);

}  // namespace lockstep::config
