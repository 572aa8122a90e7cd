#pragma once
#include <span>
#include <vector>

namespace lockstep::stats {

/// Sum over count. Each function here needs at least one value, all finite (LOCKSTEP_CHECK).
double mean(std::span<const double> values);
/// Middle value; for an even count the mean of the two in the middle.
double median(std::span<const double> values);
/// p in [0, 100]. Linear between the order statistics around position p/100 * (count - 1), as NumPy's default.
double percentile(std::span<const double> values, double p);
/// The same of values in ascending order.
double percentile_of_sorted(std::span<const double> sorted, double p);
/// Mean of what is left when floor(share x count) values are cut off at each end; share in [0, 0.5).
double trimmed_mean_of_sorted(std::span<const double> sorted, double share);
/// Square root of the sum of squared deviations over (count - 1); 0 for one value.
double sample_stddev(std::span<const double> values);
/// 1.4826 x median of |value - centre|: estimates the standard deviation of normal data, unmoved by outliers. Where
/// more than half of the values equal the centre, 1.2533 x mean of |value - centre|.
double robust_stddev(std::span<const double> values, double centre);

}  // namespace lockstep::stats
