#include "config/hub_names.h"

#include <fmt/format.h>

#include "core/strings.h"

namespace lockstep::config {

std::string_view hub_repository(std::string_view name) {
  for (const std::string_view prefix : {"hf-hub:", "hf_hub:", "hf://", "https://huggingface.co/"})
    if (core::starts_with(name, prefix)) return name.substr(prefix.size());
  return {};
}

std::string hint_for_name(std::string_view name, const std::string& then, const std::string& hint) {
  const std::string_view repository = hub_repository(name);
  if (repository.empty()) return hint;
  return fmt::format(
      "names of the Hugging Face Hub are not downloaded: fetch it, for example with `hf download {}`, and {}",
      repository, then);
}

}  // namespace lockstep::config
