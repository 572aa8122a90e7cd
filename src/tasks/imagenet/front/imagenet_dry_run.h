#pragma once
#include <string>
#include <utility>
#include <vector>

#include "tasks/imagenet/front/imagenet_options.h"
#include "tasks/tasks.h"

namespace lockstep::tasks {

/// What a training step must hold, in bytes of one rank.
struct ImagenetMemory {
  double parameters = 0, gradients = 0;
  double optimizer = 0;    ///< Moments, and the average of the weights; this rank's share.
  double activations = 0;  ///< Kept from forward to backward.
  double batch = 0;        ///< Pictures.
  std::vector<std::pair<std::string, double>> parts() const;  ///< Each with its name.
  double total() const { return parameters + gradients + optimizer + activations + batch; }
};

/// Estimate from shapes alone; temporaries of kernels, the allocator's rounding and libraries come on top.
ImagenetMemory plan_imagenet_memory(const ImagenetOptions& options, const plan::BatchPlan& batch, int64_t num_ranks);

DryRunPage imagenet_dry_run(const ImagenetOptions& options, const core::OptionSet& set, const WorldSize& world);

}  // namespace lockstep::tasks
