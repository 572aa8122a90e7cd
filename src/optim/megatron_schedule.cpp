#include "optim/megatron_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace lockstep::optim {
namespace {

double cosine_part(double progress) { return 0.5 * (1 + std::cos(std::numbers::pi * progress)); }

/// Part of the way from the least rate to the highest in the tail of WSD.
double tail_part(const std::string& style, double progress) {
  if (style == "linear") return 1 - progress;
  if (style == "cosine") return cosine_part(progress);
  if (style == "minus_sqrt") return 1 - std::sqrt(progress);
  return 2 * std::pow(0.5, progress) - 1;
}

}  // namespace

double MegatronSchedule::lr(int64_t samples) const {
  const auto x = static_cast<double>(samples), warmup = warmup_samples, end = static_cast<double>(decay_samples);
  if (warmup > 0 && x <= warmup) return warmup_init + (max_lr - warmup_init) * x / warmup;
  if (style == "constant") return max_lr;
  if (samples > decay_samples) return min_lr;
  if (style == "inverse-square-root")
    return std::max(min_lr, max_lr * std::sqrt(std::max(warmup, 1.0) / std::max(x, 1.0)));
  const double span = max_lr - min_lr, progress = end > warmup ? (x - warmup) / (end - warmup) : 1.0;
  if (style == "linear") return min_lr + span * (1 - progress);
  if (style == "cosine") return min_lr + span * cosine_part(progress);
  LOCKSTEP_CHECK(style == "WSD", "style={}", style);
  const double start = end - static_cast<double>(tail_samples);
  return x <= start ? max_lr : min_lr + span * tail_part(tail_style, (x - start) / static_cast<double>(tail_samples));
}

}  // namespace lockstep::optim
