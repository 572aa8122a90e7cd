#include "tasks/front/length_facts.h"

#include <fmt/format.h>

namespace lockstep::tasks {

void add_length_facts(const RunLength& length, std::vector<DryRunFact>& facts) {
  if (!length.samples_per_epoch) {
    facts.push_back({"steps_per_epoch", "steps per epoch", nullptr,
                     "known when the data are opened (--train-num-samples tells before)"});
    return;
  }
  const int64_t steps = (*length.samples_per_epoch + length.global_batch - 1) / length.global_batch;
  const bool is_cut = length.max_steps && *length.max_steps / steps < length.epochs;
  const int64_t total = is_cut ? *length.max_steps : steps * length.epochs;
  facts.push_back({"steps_per_epoch", "steps per epoch", steps,
                   fmt::format("{} ({} {}, rounded up to whole global batches)", steps, *length.samples_per_epoch,
                               length.sample_unit)});
  facts.push_back({"total_steps", "steps in all", total,
                   fmt::format("{} ({}), warm-up {}", total,
                               is_cut ? "--max-steps" : fmt::format("{} epochs", length.epochs), length.warmup)});
}

}  // namespace lockstep::tasks
