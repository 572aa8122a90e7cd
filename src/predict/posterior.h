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

/// What is believed of the seconds of compute before anything is measured: log-normal.
struct ComputePrior {
  double median_s = 0, log_sd = 0;
};

/// Draws from the prior alone.
std::vector<Draw> sample_prior(const ComputePrior& prior, uint64_t seed = 1);

/// Draws from the distribution of the model's unknowns given measurements, at least one (elliptical slice sampling,
/// Murray, Adams and MacKay 2010; compute_s, of which nothing is believed before, is drawn from its conditional normal
/// law). The same input gives the same draws. Errors are relative and normal, with the model's own noise. DataError
/// where the traffic takes longer than the measured steps.
std::vector<Draw> sample_posterior(const Setting& setting, double reference_step_s, std::span<const Measured> measured,
                                   uint64_t seed = 1);

}  // namespace lockstep::predict
