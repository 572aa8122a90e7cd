#pragma once
#include <string_view>
#include <vector>

namespace lockstep::logs {

/// What the options that a program prints say about a run: those of the task whose flags it has, and others of its own,
/// by flag name.
struct OptionDialect {
  std::string_view task{};  ///< "clip"; "" where the program has no task's flags.
  std::vector<std::string_view> identity{}, identity_prefixes{}, identity_suffixes{};  ///< Which run it is, and where.
  std::vector<std::string_view> schedule{};  ///< How training proceeds, not what a step has to do.
  /// What changes the work of that program's steps, though it has no influence in lockstep.
  std::vector<std::string_view> configuration{};
};

}  // namespace lockstep::logs
