#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::config {

/// By which flags an optimiser is tuned, beside --lr and weight decay.
enum class OptimizerFlags {
  kBetas,     ///< --beta1, --beta2, --eps (Lion has no use for it)
  kMomentum,  ///< --momentum, --nesterov
};

/// An optimiser by the name that --opt takes; what it does is in optim/make_optimizer.cpp.
struct OptimizerInfo {
  std::string_view name{};
  int64_t num_moments = 0;  ///< Tensors of a parameter's size that it keeps.
  OptimizerFlags flags = OptimizerFlags::kBetas;
  double beta2 = 0, epsilon = 0;     ///< Defaults of their flags, where the task has none of its own (0).
  bool needs_whole_tensors = false;  ///< Its update reads norms of whole parameters: no rank may own a part of one.
};

inline constexpr OptimizerInfo kOptimizers[] = {
    {.name = "adamw", .num_moments = 2},
    {.name = "lion", .num_moments = 1, .beta2 = 0.99},
    {.name = "lamb", .num_moments = 2, .beta2 = 0.999, .epsilon = 1e-6, .needs_whole_tensors = true},
    {.name = "sgd", .num_moments = 1, .flags = OptimizerFlags::kMomentum},
    {.name = "lars", .num_moments = 1, .flags = OptimizerFlags::kMomentum, .needs_whole_tensors = true},
};

/// In the order of the table.
std::vector<std::string> optimizer_names();
/// Those that a task takes that has these flags alone.
std::vector<std::string> optimizer_names(OptimizerFlags flags);
/// UsageError that lists the names for one that is not in the table.
const OptimizerInfo& optimizer_info(std::string_view name);

}  // namespace lockstep::config
