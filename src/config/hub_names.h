#pragma once
#include <string>
#include <string_view>

namespace lockstep::config {

/// "ORG/NAME" of a name of the Hugging Face Hub ("hf-hub:ORG/NAME" and its like); "" for other names.
std::string_view hub_repository(std::string_view name);

/// The hint of an error about a model or file that is not known: `hint`, or, where `name` is one of the Hugging Face
/// Hub, how to fetch what it names, and `then`: which flags take it. Nothing here downloads.
std::string hint_for_name(std::string_view name, const std::string& then, const std::string& hint);

}  // namespace lockstep::config
