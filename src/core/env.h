#pragma once
#include <cstdlib>
#include <optional>
#include <string>

namespace lockstep::core {

/// Value of an environment variable; nothing when it is unset or empty.
inline std::optional<std::string> env(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

}  // namespace lockstep::core
