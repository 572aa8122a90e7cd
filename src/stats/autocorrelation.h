#pragma once
#include <span>
#include <vector>

namespace lockstep::stats {

/// Standard normal quantiles of the ranks of the values (ties share their mean rank): a series with the same order and
/// dependence, but without outliers, skew or scale.
std::vector<double> normal_scores(std::span<const double> values);

/// How a series depends on its own past: an autoregressive model of the normal scores by Burg's method, of an order
/// that grows with the length, its persistence corrected for the bias of short series.
struct Dependence {
  size_t num_values = 0;
  double persistence = 0;  ///< Sum of the coefficients, corrected; below 1.
  /// Autocorrelation time 1 + 2 sum rho: variance of the mean of n values over that of n independent ones.
  double time_mean = 1;
  double time_median = 1;  ///< The same of the share of values below the median, which governs the median.
  double dof = 1;          ///< Degrees of freedom that the estimated variance is worth.

  /// Values that are worth as much as independent ones.
  double effective_values() const { return static_cast<double>(num_values) / time_mean; }
};

/// Dependence of a series without trend; `num_fitted` more parameters than the mean were fitted and removed (levels,
/// slopes). At least 8 values.
Dependence estimate_dependence(std::span<const double> scores, size_t num_fitted = 0);

/// Autocorrelation of the values at a lag, plain estimator; 0 for a constant series.
double autocorrelation(std::span<const double> values, size_t lag);

}  // namespace lockstep::stats
