#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep::optim {

enum class EpochScheduleKind { kStep, kCosine, kPolynomial, kConst };

/// "step", "cosine", "poly" or "const"; anything else is a UsageError that lists them.
EpochScheduleKind parse_epoch_schedule(std::string_view name);

/// Learning rate of classifiers as a function of the optimiser step alone: a resumed run needs no schedule state.
struct EpochSchedule {
  EpochScheduleKind kind = EpochScheduleKind::kStep;
  double base_lr = 0.1;
  int64_t steps_per_epoch = 1;
  int64_t num_epochs = 90;
  int64_t warmup_epochs = 0;
  double warmup_start = 0;               ///< Share of base_lr at which the warm-up begins.
  int64_t step_epochs = 30;              ///< kStep: epochs between two steps,
  std::vector<int64_t> milestones = {};  ///< or the epochs at whose start the rate falls, where there are some.
  double gamma = 0.1;
  double power = 2;   ///< kPolynomial
  double end_lr = 0;  ///< kCosine, kPolynomial

  /// Rate of step `step` (from 0). Warm-up: from warmup_start x base_lr in a straight line to base_lr, which the first
  /// step behind it has. Then by kind: steps fall at starts of epochs, every step_epochs counted from the end of the
  /// warm-up (torchvision's SequentialLR), milestones from the first of the run; the others are functions of the share
  /// of the steps behind the warm-up that are done.
  double lr(int64_t step) const;
};

}  // namespace lockstep::optim
