#pragma once
#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "core/error.h"

namespace lockstep::checkpoint {

/// Whether there is something behind the name. CheckpointError where that cannot be told: what may not be looked at
/// must not pass for absent.
inline bool is_there(const std::filesystem::path& path) {
  std::error_code failure;
  const bool is_found = std::filesystem::exists(path, failure);
  if (failure)
    throw CheckpointError(fmt::format("checkpoint: cannot look at '{}': {}", path.string(), failure.message()),
                          "what is there is not known: see to the storage or the permissions and start again, or move "
                          "it away");
  return is_found;
}

}  // namespace lockstep::checkpoint
