#pragma once
#include <optional>
#include <string>
#include <vector>

#include "config/contrastive_shape.h"
#include "plan/batch_plan.h"
#include "tasks/contrastive/front/contrastive_options.h"
#include "tasks/contrastive/front/memory_plan.h"
#include "tasks/front/dry_run.h"

namespace lockstep::tasks {

/// rank_memory, or what --device-memory says; UsageError for one that is neither a size nor a device's name.
std::optional<RankMemory> contrastive_rank_memory(const ContrastiveOptions& options, const WorldSize& world);

/// What one rank is planned to hold on a device of this memory.
MemoryPlan planned_memory(const ContrastiveOptions& options, const config::ContrastiveShape& shape,
                          const plan::BatchPlan& batch, int64_t num_ranks, const std::optional<RankMemory>& memory);

/// Planned memory of one rank by part and whether it fits. The plan is of what tensors hold; kernels, allocator and
/// libraries need more.
std::vector<DryRunFact> memory_facts(const ContrastiveOptions& options, const config::ContrastiveShape& shape,
                                     const plan::BatchPlan& batch, int64_t num_ranks,
                                     const std::optional<RankMemory>& memory);

}  // namespace lockstep::tasks
