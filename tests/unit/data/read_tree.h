#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "core/files.h"

namespace lockstep::tests {

/// Content of every file below a folder, by its path from there.
inline std::map<std::string, std::string> read_tree(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      files[std::filesystem::relative(entry.path(), folder).string()] = core::read_file(entry.path());
  return files;
}

}  // namespace lockstep::tests
