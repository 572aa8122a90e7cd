#pragma once
#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "predict/plateau.h"
#include "predict/posterior.h"

namespace lockstep::predict {

/// Quantiles of a step time: 5, 25, 50, 75 and 95 %.
struct Interval {
  double p5 = 0, p25 = 0, p50 = 0, p75 = 0, p95 = 0;
  bool covers90(double value) const { return p5 <= value && value <= p95; }
  bool covers50(double value) const { return p25 <= value && value <= p75; }
  double relative_half_width() const { return (p95 - p5) / 2 / p50; }
};

/// A predicted step: what a single measurement there would give.
struct PredictedStep {
  Size size{};
  Interval step_s{};
  Interval over_first{};  ///< Of the step over that of the first size, whose common unknowns cancel.
  Parts parts_s{};        ///< Medians of the parts; they need not add up to the median of the sum.
};

/// How much the measurements said of an unknown.
struct Learned {
  Latent latent = kNetworkEfficiency;
  double shift = 0;  ///< Of its mean, in prior standard deviations.
  double width = 1;  ///< Its standard deviation over that of the prior: 1 says that nothing was learned.
};

struct Forecast {
  std::vector<PredictedStep> steps{};
  std::vector<Learned> learned{};  ///< All but those that no measurement moved.
};

/// Predicts the steps at `sizes` from draws of sample_posterior for the same setting and reference. `calibrated_nodes`:
/// the largest measured size; beyond it the interval widens with every doubling, and more where the network's first
/// group is left. A plateau limits the draws that its probability says, at all sizes from its own on. No step is
/// shorter than its input: what devices wait for it beside all else is a part of its own.
Forecast forecast(const Setting& setting, double reference_step_s, std::span<const Draw> draws,
                  std::span<const Size> sizes, double calibrated_nodes,
                  const std::optional<Plateau>& plateau = std::nullopt, uint64_t seed = 1);

/// The step at one size by each of the draws, without noise of a measurement: ratios of two settings' are of what they
/// do not have in common.
std::vector<double> drawn_steps(const Setting& setting, double reference_step_s, std::span<const Draw> draws,
                                const Size& size);

}  // namespace lockstep::predict
