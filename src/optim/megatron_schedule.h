#pragma once
#include <cstdint>
#include <string>

namespace lockstep::optim {

/// Learning rate of Megatron-LM as a function of the samples consumed before the step.
struct MegatronSchedule {
  std::string style = "linear";  ///< constant, linear, cosine, inverse-square-root, WSD
  double max_lr = 0, min_lr = 0;
  double warmup_init = 0;     ///< Where the warm-up begins.
  double warmup_samples = 0;  ///< A share of decay_samples need not be whole.
  int64_t decay_samples = 1;  ///< End of the decay, warm-up included; from there on min_lr (but for constant).
  std::string tail_style = "exponential";  ///< WSD: exponential, linear, cosine, minus_sqrt
  int64_t tail_samples = 0;                ///< WSD: the last ones of decay_samples.

  double lr(int64_t samples) const;
};

}  // namespace lockstep::optim
