#pragma once
#include <filesystem>
#include <system_error>

#include "core/files.h"

namespace lockstep::core {

/// EnvironmentError where that cannot be told: what may not be looked at is not absent.
inline bool is_there(const std::filesystem::path& path) {
  std::error_code failure;
  const bool is_found = std::filesystem::exists(path, failure);
  if (failure) throw as_environment_error(std::filesystem::filesystem_error("", path, failure));
  return is_found;
}

}  // namespace lockstep::core
