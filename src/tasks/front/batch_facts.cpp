#include "tasks/front/batch_facts.h"

#include <fmt/format.h>

#include "core/counted.h"

namespace lockstep::tasks {

std::vector<DryRunFact> batch_facts(const core::OptionSet& set, const config::RunOptions& options,
                                    const WorldSize& world, const plan::BatchPlan& batch,
                                    std::string_view sample_name) {
  return {command_fact(set),
          {"model", "model", options.model, options.model},
          {"precision", "precision", options.precision, options.precision},
          world_fact(world),
          {"micro_batch_size", "samples per rank", batch.micro_batch_size,
           fmt::format("{} x {}", batch.micro_batch_size,
                       core::counted(batch.num_micro_batches, "micro-batch", "micro-batches"))},
          {"num_micro", "", batch.num_micro_batches, ""},
          {"global_batch", "global batch", batch.global_batch, core::counted(batch.global_batch, sample_name)}};
}

}  // namespace lockstep::tasks
