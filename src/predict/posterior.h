#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "predict/cost_model.h"

namespace lockstep::predict {

/// One measured step; several may have one size.
struct Measured {
  Size size{};
  double step_s = 0;
};

/// One state of the model that agrees with the measurements.
struct Draw {
  Latents latents{};
  double compute_s = 0;  ///< Of a device at the reference size.
};

/// What is believed of the seconds of compute before calibration: nothing, or a median with a relative width.
struct ComputePrior {
  double median_s = 0, log_sd = 0;  ///< log_sd 0: nothing.
};

/// Draws from the distribution of the model's unknowns given measurements (elliptical slice sampling, Murray, Adams and
/// MacKay 2010; compute_s is drawn from its conditional normal law). The same input gives the same draws. Without
/// measurements `prior` must say something. Errors are relative and normal, with the model's own noise.
std::vector<Draw> sample_posterior(const Setting& setting, double reference_step_s, std::span<const Measured> measured,
                                   const ComputePrior& prior = {}, uint64_t seed = 1);

}  // namespace lockstep::predict
