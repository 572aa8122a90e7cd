#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::plan {

/// What the user's dialect calls the numbers; for messages.
struct BatchFlags {
  std::string micro_batch_size = "--batch-size";
  std::string num_micro_batches = "--accum-freq";
  std::string global_batch = "--global-batch-size";
};

/// How one optimiser step shares out its samples: global_batch = micro_batch_size x num_micro_batches x num_data_ranks.
struct BatchPlan {
  int64_t num_data_ranks = 1;
  int64_t micro_batch_size = 1;   ///< Of one rank's forward pass.
  int64_t num_micro_batches = 1;  ///< Micro-batches per rank and step.
  int64_t global_batch = 1;
  int64_t samples_per_replica() const { return micro_batch_size * num_micro_batches; }
  /// Whose input a rank holds at a time. On a device those of three steps: of the one that is computed, of the next
  /// one, which waits in the stream, and of the one whose batch is on its way.
  int64_t micro_batches_held(bool is_device) const { return num_micro_batches * (is_device ? 3 : 1); }
};

/// What the user said; at least micro_batch_size or global_batch.
struct BatchRequest {
  std::optional<int64_t> micro_batch_size{};
  std::optional<int64_t> num_micro_batches{};
  std::optional<int64_t> global_batch{};
};

/// Completes a request: a missing num_micro_batches is 1, or with a global batch and micro_batch_size what they leave;
/// a missing micro_batch_size is the global batch's share. A misfit throws UsageError that names the nearest legal
/// values and the flags to set.
BatchPlan make_batch_plan(int64_t num_data_ranks, const BatchRequest& request, const BatchFlags& flags = {});

}  // namespace lockstep::plan
