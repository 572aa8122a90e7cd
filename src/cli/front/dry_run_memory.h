#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cli/front/dry_run.h"
#include "config/contrastive_shape.h"
#include "plan/batch_plan.h"

namespace lockstep::cli {

/// What one rank may fill, and where that number is from.
struct RankMemory {
  double bytes = 0;
  std::string source{};  ///< "H100 SXM 80GB", "this machine, 2 ranks".
  bool is_gpu = false;
};

/// The memory of a rank's device: --device-memory, the GPU that the driver of this machine names, or the share of a CPU
/// rank in what this machine has left. Nothing where it cannot be told. UsageError for a --device-memory that is
/// neither a size nor a device's name.
std::optional<RankMemory> rank_memory(const config::TrainOptions& options, const WorldGuess& world);

/// Planned memory of one rank by part and whether it fits. The plan is of what tensors hold; kernels, allocator and
/// libraries need more.
std::vector<DryRunFact> memory_facts(const config::TrainOptions& options, const config::ContrastiveShape& shape,
                                     const plan::BatchPlan& batch, int64_t num_ranks,
                                     const std::optional<RankMemory>& memory);

}  // namespace lockstep::cli
