#pragma once
#include <cstdint>
#include <string_view>

namespace lockstep::optim {

enum class ScheduleKind { kCosine, kConst, kConstCooldown };

/// "cosine", "const" or "const-cooldown"; anything else is a UsageError that lists them.
ScheduleKind parse_schedule(std::string_view name);

/// Learning rate as a function of the optimiser step alone: a resumed run needs no schedule state.
struct Schedule {
  ScheduleKind kind = ScheduleKind::kCosine;
  double base_lr = 5e-4;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;
  int64_t cooldown_steps = 0;  ///< kConstCooldown: the last steps, over which the rate falls to `cooldown_end_lr`.
  double cooldown_power = 1.0;
  double cooldown_end_lr = 0.0;
  bool is_skipped = false;  ///< --skip-scheduler: `base_lr` throughout, without warm-up.

  /// Rate of step `step` (from 0). Warm-up: base_lr (step + 1) / warmup_steps; then half a cosine to 0 at total_steps,
  /// or base_lr, or base_lr and at the end (1 - progress)^power (base_lr - end_lr) + end_lr. From total_steps on the
  /// rate stays at its final value.
  double lr(int64_t step) const;
};

}  // namespace lockstep::optim
