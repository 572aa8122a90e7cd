#include "tasks/front/length_facts.h"

#include <fmt/format.h>

#include "core/counted.h"

namespace lockstep::tasks {

void add_length_facts(const RunLength& length, std::vector<DryRunFact>& facts) {
  if (!length.samples_per_epoch) {
    facts.push_back({"steps_per_epoch", "steps per epoch", nullptr,
                     "known when the data are opened (--train-num-samples tells before)"});
    return;
  }
  const int64_t samples = *length.samples_per_epoch;
  const int64_t steps = (samples + (length.are_counted ? 0 : length.global_batch - 1)) / length.global_batch;
  if (steps == 0) {
    facts.push_back({"steps_per_epoch", "steps per epoch", steps,
                     fmt::format("none: the data hold {}, fewer than one global batch",
                                 core::counted(samples, length.sample_name))});
    return;
  }
  const bool is_cut = length.max_steps && *length.max_steps / steps < length.epochs;
  const int64_t total = is_cut ? *length.max_steps : steps * length.epochs;
  facts.push_back({"steps_per_epoch", "steps per epoch", steps,
                   fmt::format("{} ({}, {} to whole global batches)", steps, core::counted(samples, length.sample_name),
                               length.are_counted ? "as counted in the data, rounded down" : "rounded up")});
  facts.push_back({"total_steps", "steps in all", total,
                   fmt::format("{} ({}), warm-up {}", total,
                               is_cut ? "--max-steps" : core::counted(length.epochs, "epoch"), length.warmup)});
}

}  // namespace lockstep::tasks
