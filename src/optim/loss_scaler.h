#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>

namespace lockstep::optim {

struct LossScalerConfig {
  double initial_scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;  ///< Steps in a row without overflow before the scale grows.
  /// The scale shrinks at this overflow since it last grew, and at all after it (Megatron's rule).
  int64_t hysteresis = 1;
  double min_scale = 0.0;
  bool is_constant = false;  ///< The scale stays; steps with an overflow are skipped all the same.
};

/// State of a scaler as files hold it.
struct LossScalerState {
  double scale = 0.0;
  int64_t growth_tracker = 0;
  int64_t hysteresis_tracker = 1;  ///< Overflows until the scale shrinks; below 1 each one does.
};

/// Dynamic loss scale for fp16 compute, with torch's GradScaler rule and defaults. Scale and counters stay on the
/// device.
class LossScaler {
 public:
  explicit LossScaler(at::Device device, const LossScalerConfig& config = {});

  at::Tensor scaled(const at::Tensor& loss) const;
  const at::Tensor& scale() const { return scale_; }  ///< 0-dim fp32; replaced in place by update().
  /// After the optimiser step. `found_inf`: 0-dim fp32, equal on all ranks. 1 shrinks the scale; enough zeros in a row
  /// let it grow.
  void update(const at::Tensor& found_inf);

  const LossScalerConfig& config() const { return config_; }
  LossScalerState state() const;  ///< Waits for the device.
  void load_state(const LossScalerState& state);

 private:
  LossScalerConfig config_;
  at::Tensor scale_, growth_tracker_, hysteresis_tracker_;  // fp32
};

}  // namespace lockstep::optim
