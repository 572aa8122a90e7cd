#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "config/contrastive_shape.h"
#include "config/frozen_parameters.h"

namespace lockstep::tasks {

/// What a training step must hold, in bytes of one rank.
struct MemoryPlan {
  double parameters = 0;  ///< With those of a teacher.
  double gradients = 0;
  double optimizer = 0;        ///< Moments: this rank's share.
  double masters = 0;          ///< fp32 copies of 16-bit parameters: this rank's share.
  double activations = 0;      ///< Kept from forward to backward, at their peak.
  double batch = 0;            ///< Pictures or sounds, and token ids; of all batches held at once.
  double logits = 0;           ///< Similarities of own and all pairs, their softmax and gradients; a teacher's, too.
  double cached_features = 0;  ///< Of locked towers, where they lie in the memory of a rank's device.
  std::vector<std::pair<std::string, double>> parts() const;  ///< Each with its name.
  double total() const {
    return parameters + gradients + optimizer + masters + activations + batch + logits + cached_features;
  }
};

struct MemoryPlanInput {
  std::string precision = "fp32";   ///< Name of --precision.
  int64_t num_moments = 2;          ///< config::OptimizerInfo::num_moments.
  int64_t optimizer_shards = 1;     ///< Ranks that share moments and masters (zero1); padding is left out.
  bool has_fp32_gradients = false;  ///< --accumulate-allreduce-grads-in-fp32.
  int64_t micro_batch_size = 1;
  int64_t global_batch = 1;  ///< Pairs that the loss compares with.
  int64_t batches_held = 1;  ///< plan::BatchPlan::micro_batches_held.
  bool grad_checkpointing = false;
  config::TowerLocks locks = {};    ///< Of a CLIP model: what is not trained has neither gradients nor moments.
  double teacher_parameters = 0;    ///< Elements of --distill-model; 0: no teacher.
  double cached_feature_bytes = 0;  ///< --cache-locked-features on a CPU rank; they never lie on a GPU.
  bool keeps_attention = true;  ///< Attention probabilities are kept (CPU); false: recomputed by a fused kernel (CUDA).
};

/// Estimate from shapes alone, data parallel. Activations count what the layers of nn/ and models/ keep for the
/// backward pass, texts at their nominal length; a locked tower keeps nothing, one locked in part counts in full.
/// Temporaries of kernels, the allocator's rounding and libraries come on
/// top.
MemoryPlan plan_contrastive_memory(const config::ContrastiveShape& shape, const MemoryPlanInput& input);

}  // namespace lockstep::tasks
