#pragma once
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "predict/cost_model.h"

namespace lockstep::predict {

/// One measured step; several may have one size.
struct Measured {
  Size size{};
  double step_s = 0;
  /// Is it as long as its input takes? Then devices waited, and it is an upper bound of what they do. A step that is
  /// clearly shorter had a faster input than was told.
  bool is_input_bound() const { return size.input_s > 0 && std::fabs(step_s / size.input_s - 1) <= kSameAsInput; }
  static constexpr double kSameAsInput = 0.02;
};

/// Those that tell what devices compute: not the steps at their input.
std::vector<Measured> compute_bound(std::span<const Measured> measured);

/// One state of the model that agrees with the measurements.
struct Draw {
  Latents latents{};
  double compute_s = 0;  ///< Of a device at the reference size.
};

/// How long draws are made.
struct Sampling {
  int num_burn_in = 500, num_draws = 3000;
  uint64_t seed = 1;
};

/// What is believed of the seconds of compute before anything is measured: log-normal.
struct ComputePrior {
  double median_s = 0, log_sd = 0;
};

/// Draws from the prior alone.
std::vector<Draw> sample_prior(const ComputePrior& prior, const Sampling& sampling = {});

/// The same, of which no step at the sizes of `bounds` takes longer than there.
std::vector<Draw> sample_prior_below(const Setting& setting, double reference_step_s, const ComputePrior& prior,
                                     std::span<const Measured> bounds, const Sampling& sampling = {});

/// Draws from the distribution of the model's unknowns given measurements, at least one (elliptical slice sampling,
/// Murray, Adams and MacKay 2010; compute_s, of which nothing is believed before, is drawn from its conditional normal
/// law). The same input gives the same draws. Errors are relative and normal, with the model's own noise. DataError
/// where the traffic takes longer than the measured steps.
std::vector<Draw> sample_posterior(const Setting& setting, double reference_step_s, std::span<const Measured> measured,
                                   const Sampling& sampling = {});

}  // namespace lockstep::predict
