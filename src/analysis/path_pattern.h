#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::analysis {

/// A --meta expression that takes a count from the paths of runs, and what it takes.
struct PathPattern {
  std::string expression{};         ///< "clip_n(?<nodes>[0-9]+)/"
  std::vector<int64_t> values{};    ///< Ascending, each once.
  std::vector<int64_t> of_paths{};  ///< By path.
};

/// The number in which the paths differ and beside which `fact` ("nodes", "devices") stands by one of its usual names,
/// with an alternative for each form of paths; nothing where there is none, several, or more than a few forms.
std::optional<PathPattern> pattern_of_paths(const std::string& fact, const std::vector<std::filesystem::path>& paths);

}  // namespace lockstep::analysis
