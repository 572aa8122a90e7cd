#include "config/changed_settings.h"

#include <fmt/format.h>

#include "core/strings.h"

namespace lockstep::config {
namespace {

std::string text_of(const core::Json& value) {
  if (value.is_null()) return "none";
  if (value.is_boolean()) return value.get<bool>() ? "on" : "off";
  return value.is_string() ? fmt::format("'{}'", value.get<std::string>()) : value.dump();
}

}  // namespace

std::vector<std::string> changed_settings(const core::OptionSet& set, const core::Json& recorded) {
  std::vector<std::string> changed;
  const core::Json values = set.values_json();
  for (const core::Option& option : set.options()) {
    const auto role = option.spec.role;
    if (role != core::OptionRole::kSchedule && role != core::OptionRole::kConfiguration) continue;
    const std::string key = core::replace_all(option.name, "-", "_");
    const auto before = recorded.find(key);
    if (before == recorded.end() || *before == values.at(key)) continue;
    changed.push_back(fmt::format("--{} {} (before {})", option.name, text_of(values.at(key)), text_of(*before)));
  }
  return changed;
}

}  // namespace lockstep::config
