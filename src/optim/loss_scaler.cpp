#include "optim/loss_scaler.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>

#include "core/error.h"

namespace lockstep::optim {

LossScaler::LossScaler(at::Device device, const LossScalerConfig& config)
    : config_(config), scale_(at::full({}, config.initial_scale, at::TensorOptions(device).dtype(at::kFloat))),
      growth_tracker_(at::zeros_like(scale_)),
      hysteresis_tracker_(at::full_like(scale_, static_cast<double>(config.hysteresis))) {}

at::Tensor LossScaler::scaled(const at::Tensor& loss) const { return loss * scale_; }

void LossScaler::update(const at::Tensor& found_inf) {
  const c10::NoGradGuard no_grad;
  if (config_.is_constant) return;
  hysteresis_tracker_.sub_(found_inf);
  const at::Tensor shrinks = hysteresis_tracker_.lt(1).logical_and_(found_inf.gt(0));
  growth_tracker_.add_(1).mul_(found_inf.eq(0));
  const at::Tensor larger = scale_.mul(config_.growth_factor);
  const at::Tensor grows = growth_tracker_.ge(static_cast<double>(config_.growth_interval));
  scale_.copy_(at::where(shrinks, scale_.mul(config_.backoff_factor).clamp_min_(config_.min_scale),
                         at::where(grows.logical_and(larger.isfinite()), larger, scale_)));
  growth_tracker_.masked_fill_(grows, 0);
  hysteresis_tracker_.masked_fill_(grows, static_cast<double>(config_.hysteresis));
}

LossScalerState LossScaler::state() const {
  return {.scale = scale_.item<double>(),
          .growth_tracker = growth_tracker_.item<int64_t>(),
          .hysteresis_tracker = hysteresis_tracker_.item<int64_t>()};  // sync: for checkpoints only
}

void LossScaler::load_state(const LossScalerState& state) {
  if (!(state.scale > 0) || !std::isfinite(state.scale) || state.growth_tracker < 0)
    throw CheckpointError(fmt::format(
        "optim: loss scaler state is damaged: scale={}, growth_tracker={}, expected a positive scale and a count",
        state.scale, state.growth_tracker));
  const c10::NoGradGuard no_grad;
  scale_.fill_(state.scale);
  growth_tracker_.fill_(state.growth_tracker);
  hysteresis_tracker_.fill_(state.hysteresis_tracker);
}

}  // namespace lockstep::optim
