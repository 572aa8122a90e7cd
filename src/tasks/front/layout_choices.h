#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::tasks {

/// A run whose layout is asked for.
struct LayoutQuestion {
  int64_t global_batch = 1, num_ranks = 1, devices_per_node = 1;
};

/// Ways to run a command, each by the flags that make it.
struct LayoutChoices {
  using Flags = std::vector<std::string>;
  std::vector<Flags> layouts{};
  Flags fixed{};  ///< Of all of them: what keeps the global batch.
  /// Of each layout so many flags, at its end, only cut the batch into micro-batches, the largest first: of layouts
  /// that are alike but for these the first that fits is the fastest.
  size_t num_micro_flags = 0;
};

/// Every combination of one list of flags from each choice.
std::vector<LayoutChoices::Flags> combinations(const std::vector<std::vector<LayoutChoices::Flags>>& choices);

}  // namespace lockstep::tasks
