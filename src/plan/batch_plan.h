#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::plan {

/// What the user's dialect calls the numbers; for messages.
struct BatchFlags {
  std::string samples_per_micro = "--batch-size";
  std::string num_micro = "--accum-freq";
  std::string global_batch = "--global-batch-size";
};

/// How one optimiser step shares out its samples: global_batch = samples_per_micro x num_micro x num_data_ranks.
struct BatchPlan {
  int64_t num_data_ranks = 1;
  int64_t samples_per_micro = 1;  ///< Of one rank's forward pass.
  int64_t num_micro = 1;          ///< Micro-batches per rank and step.
  int64_t global_batch = 1;
  int64_t samples_per_rank() const { return samples_per_micro * num_micro; }
};

/// What the user said; at least samples_per_micro or global_batch.
struct BatchWish {
  std::optional<int64_t> samples_per_micro{};
  std::optional<int64_t> num_micro{};
  std::optional<int64_t> global_batch{};
};

/// Completes a wish: a missing num_micro is 1, or with a global batch and samples_per_micro what they leave; a missing
/// samples_per_micro is the global batch's share. A misfit throws UsageError that names the nearest legal values and
/// the flags to set.
BatchPlan make_batch_plan(int64_t num_data_ranks, const BatchWish& wish, const BatchFlags& flags = {});

}  // namespace lockstep::plan
