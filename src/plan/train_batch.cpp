#include "plan/train_batch.h"

#include "core/error.h"
#include "plan/gpt_train.h"

namespace lockstep::plan {

BatchPlan train_batch_plan(const config::ParsedCommand& command, int64_t num_ranks) {
  if (command.gpt) return train_gpt_layout(*command.gpt, num_ranks).batch;
  LOCKSTEP_CHECK(command.train != nullptr, "'{}' does not train", command.info->name);
  const config::TrainOptions& options = *command.train;
  const bool has_global = options.global_batch.has_value();
  BatchWish wish{.global_batch = options.global_batch};
  if (!has_global || command.set->is_given("batch-size")) wish.samples_per_micro = options.samples_per_rank;
  if (!has_global || command.set->is_given("accum-freq")) wish.num_micro = options.accum_freq;
  return make_batch_plan(num_ranks, wish);
}

}  // namespace lockstep::plan
