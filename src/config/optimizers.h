#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::config {

/// An optimiser by the name that --opt takes; what it does is in optim/make_optimizer.cpp.
struct OptimizerInfo {
  std::string_view name{};
  int64_t num_moments = 0;  ///< Tensors of a parameter's size that it keeps.
};

inline constexpr OptimizerInfo kOptimizers[] = {
    {.name = "adamw", .num_moments = 2},
};

/// In the order of the table.
std::vector<std::string> optimizer_names();
/// UsageError that lists the names for one that is not in the table.
const OptimizerInfo& optimizer_info(std::string_view name);

}  // namespace lockstep::config
