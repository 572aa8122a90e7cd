#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::optim {
namespace {

/// Part of [begin, end) that lies behind `step`, in [0, 1].
double progress(int64_t step, int64_t begin, int64_t end) {
  if (end <= begin) return 1.0;
  return std::clamp(static_cast<double>(step - begin) / static_cast<double>(end - begin), 0.0, 1.0);
}

}  // namespace

ScheduleKind parse_schedule(std::string_view name) {
  constexpr std::pair<std::string_view, ScheduleKind> kKnown[] = {
      {"cosine", ScheduleKind::kCosine},
      {"const", ScheduleKind::kConst},
      {"const-cooldown", ScheduleKind::kConstCooldown},
  };
  std::vector<std::string> names;
  for (const auto& [known, kind] : kKnown) {
    if (name == known) return kind;
    names.emplace_back(known);
  }
  const auto nearest = core::nearest_name(name, names);
  throw UsageError(fmt::format("optim: unknown learning rate schedule '{}', expected {}", name, core::join_or(names)),
                   nearest ? fmt::format("did you mean --lr-scheduler {}?", *nearest) : "");
}

double Schedule::lr(int64_t step) const {
  if (is_skipped) return base_lr;
  if (step < warmup_steps) return base_lr * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  switch (kind) {
    case ScheduleKind::kCosine:
      return 0.5 * (1.0 + std::cos(std::numbers::pi * progress(step, warmup_steps, total_steps))) * base_lr;
    case ScheduleKind::kConst: return base_lr;
    case ScheduleKind::kConstCooldown: {
      const int64_t start = total_steps - cooldown_steps;
      if (step < start) return base_lr;
      return std::pow(1.0 - progress(step, start, total_steps), cooldown_power) * (base_lr - cooldown_end_lr) +
             cooldown_end_lr;
    }
  }
  LOCKSTEP_CHECK(false, "schedule kind={}", static_cast<int>(kind));
}

}  // namespace lockstep::optim
