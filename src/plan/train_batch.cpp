#include "plan/train_batch.h"

#include "core/error.h"

namespace lockstep::plan {

BatchPlan train_batch_plan(const spec::ParsedCommand& command, int64_t num_data_ranks) {
  LOCKSTEP_CHECK(command.train != nullptr, "'{}' does not train", command.info->name);
  const spec::TrainOptions& options = *command.train;
  const bool has_global = options.global_batch.has_value();
  BatchWish wish{.global_batch = options.global_batch};
  if (!has_global || command.set->is_given("batch-size")) wish.samples_per_micro = options.samples_per_rank;
  if (!has_global || command.set->is_given("accum-freq")) wish.num_micro = options.accum_freq;
  return make_batch_plan(num_data_ranks, wish);
}

}  // namespace lockstep::plan
