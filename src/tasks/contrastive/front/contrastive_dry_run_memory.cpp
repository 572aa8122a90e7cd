#include "tasks/contrastive/front/contrastive_dry_run_memory.h"

#include <fmt/format.h>

#include "config/optimizers.h"
#include "config/option_checks.h"
#include "core/units.h"
#include "tasks/contrastive/front/memory_plan.h"
#include "tasks/front/device_memory.h"

namespace lockstep::tasks {
std::optional<RankMemory> contrastive_rank_memory(const ContrastiveOptions& options, const WorldSize& world) {
  return asked_or_rank_memory(options.device_memory, options, world);
}

MemoryPlan planned_memory(const ContrastiveOptions& options, const config::ContrastiveShape& shape,
                          const plan::BatchPlan& batch, int64_t num_ranks, const std::optional<RankMemory>& memory) {
  const bool is_gpu = memory ? memory->is_gpu : options.device != "cpu";
  const bool is_zero1 = grad_sync_kind(options, num_ranks) == config::GradSyncKind::kZero1;
  const double teacher_parameters =
      options.has_teacher() ? static_cast<double>(config::contrastive_cost(teacher_shape_of(options)).parameters) : 0;
  const double cached_feature_bytes =
      options.cache_locked_features.empty() || is_gpu
          ? 0
          : static_cast<double>(config::parse_bytes(options.cache_locked_features, "--cache-locked-features"));
  return plan_contrastive_memory(shape, {.precision = options.precision,
                                         .num_moments = config::optimizer_info(options.opt).num_moments,
                                         .optimizer_shards = is_zero1 ? num_ranks : 1,
                                         .has_fp32_gradients = options.fp32_gradients,
                                         .micro_batch_size = batch.micro_batch_size,
                                         .global_batch = batch.global_batch,
                                         .batches_held = batch.micro_batches_held(is_gpu),
                                         .grad_checkpointing = options.grad_checkpointing,
                                         .locks = options.tower_locks(),
                                         .teacher_parameters = teacher_parameters,
                                         .cached_feature_bytes = cached_feature_bytes,
                                         .keeps_attention = !is_gpu});
}

std::vector<DryRunFact> memory_facts(const ContrastiveOptions& options, const config::ContrastiveShape& shape,
                                     const plan::BatchPlan& batch, int64_t num_ranks,
                                     const std::optional<RankMemory>& memory) {
  const MemoryPlan planned = planned_memory(options, shape, batch, num_ranks, memory);
  core::Json bytes = core::Json::object();
  std::vector<DryRunFact> facts;
  for (const auto& [name, value] : planned.parts()) {
    bytes[name] = static_cast<int64_t>(value);
    if (value == 0) continue;  // masters of fp32 parameters
    facts.push_back({"", fmt::format("  {}", name), nullptr, core::format_bytes(value)});
  }
  bytes["total"] = static_cast<int64_t>(planned.total());
  facts.insert(facts.begin(), {"memory_per_rank_bytes", "memory of a rank", bytes,
                               fmt::format("{}, planned from shapes; measure with `bench step`",
                                           core::format_bytes(planned.total()))});
  facts.push_back(device_memory_fact(planned.total(), memory));
  return facts;
}

}  // namespace lockstep::tasks
