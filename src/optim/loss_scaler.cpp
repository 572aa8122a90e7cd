#include "optim/loss_scaler.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>

#include "core/error.h"

namespace lockstep::optim {

LossScaler::LossScaler(at::Device device, const LossScalerConfig& config)
    : config_(config),
      scale_(at::full({}, config.initial_scale, at::TensorOptions(device).dtype(at::kFloat))),
      growth_tracker_(at::zeros({}, at::TensorOptions(device).dtype(at::kInt))) {}

at::Tensor LossScaler::scaled(const at::Tensor& loss) const { return loss * scale_; }

void LossScaler::update(const at::Tensor& found_inf) {
  const c10::NoGradGuard no_grad;
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf, config_.growth_factor, config_.backoff_factor,
                         config_.growth_interval);
}

LossScalerState LossScaler::state() const {
  return {.scale = scale_.item<double>(), .growth_tracker = growth_tracker_.item<int64_t>()};  // sync: for checkpoints only
}

void LossScaler::load_state(const LossScalerState& state) {
  if (!(state.scale > 0) || !std::isfinite(state.scale) || state.growth_tracker < 0)
    throw CheckpointError(
        fmt::format("optim: loss scaler state is damaged: scale={}, growth_tracker={}, expected a positive scale and a count",
                    state.scale, state.growth_tracker));
  const c10::NoGradGuard no_grad;
  scale_.fill_(state.scale);
  growth_tracker_.fill_(state.growth_tracker);
}

}  // namespace lockstep::optim
