#include "optim/epoch_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace lockstep::optim {

EpochScheduleKind parse_epoch_schedule(std::string_view name) {
  if (name == "step") return EpochScheduleKind::kStep;
  if (name == "cosine") return EpochScheduleKind::kCosine;
  if (name == "poly") return EpochScheduleKind::kPolynomial;
  if (name == "const") return EpochScheduleKind::kConst;
  throw UsageError(
      fmt::format("options: --lr-scheduler '{}' is not known, expected step, cosine, poly or const", name));
}

double EpochSchedule::lr(int64_t step) const {
  const int64_t warmup_steps = warmup_epochs * steps_per_epoch, total_steps = num_epochs * steps_per_epoch;
  if (step < warmup_steps) {
    const double progress = static_cast<double>(step) / static_cast<double>(warmup_steps);
    return base_lr * (warmup_start + (1 - warmup_start) * progress);
  }
  const double progress = std::min(1.0, static_cast<double>(step - warmup_steps) /
                                            static_cast<double>(std::max<int64_t>(1, total_steps - warmup_steps)));
  switch (kind) {
    case EpochScheduleKind::kConst: return base_lr;
    case EpochScheduleKind::kCosine:
      return end_lr + 0.5 * (base_lr - end_lr) * (1 + std::cos(std::numbers::pi * progress));
    case EpochScheduleKind::kPolynomial: return end_lr + (base_lr - end_lr) * std::pow(1 - progress, power);
    case EpochScheduleKind::kStep: break;
  }
  const int64_t epoch = step / steps_per_epoch;
  const int64_t num_falls = milestones.empty()
                                ? (epoch - warmup_epochs) / step_epochs
                                : std::upper_bound(milestones.begin(), milestones.end(), epoch) - milestones.begin();
  return base_lr * std::pow(gamma, static_cast<double>(num_falls));
}

}  // namespace lockstep::optim
