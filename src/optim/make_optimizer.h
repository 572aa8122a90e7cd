#pragma once
#include <memory>
#include <string>
#include <vector>

#include "optim/optimizer.h"

namespace lockstep::optim {

/// Which optimiser, and its numbers: an optimiser without a use for one leaves it alone.
struct OptimizerConfig {
  std::string name = "adamw";  ///< Of config::kOptimizers.
  double beta1 = 0.9;          ///< Decay of the first moment.
  double beta2 = 0.98;         ///< Decay of the second moment.
  double epsilon = 1e-6;       ///< Added to the root of the second moment.
  double weight_decay = 0.2;   ///< Of decay group 1.
  double momentum = 0.9;
  bool nesterov = false;
  double trust_coefficient = 1e-3;  ///< LARS: eta.
};

/// UsageError for a name that is not known.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, std::vector<Segment> segments);

}  // namespace lockstep::optim
