#include "stats/series_interval.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "stats/distributions.h"
#include "stats/statistics.h"

namespace lockstep::stats {
namespace {

constexpr double kMinEffective = 4;

bool is_enough(size_t count, const Dependence& dependence) {
  return count >= kMinIntervalValues && dependence.effective_values() >= kMinEffective;
}

/// A short correlated series wanders less around its own mean than around the true one.
double short_series_factor(const Dependence& dependence) {
  return 1 / std::sqrt(1 - 1 / dependence.effective_values());
}

std::string method_text(const char* what, const Dependence& dependence) {
  return fmt::format("Student t with {:.0f} degrees of freedom on {}, autocorrelation time {:.1f}", dependence.dof,
                     what, dependence.time_mean);
}

}  // namespace

double t_factor(double dof) { return -student_t_quantile((1 - kConfidence) / 2, dof); }

std::optional<Interval> median_interval(std::span<const double> sorted, const Dependence& dependence) {
  if (!is_enough(sorted.size(), dependence)) return std::nullopt;
  const double error = std::sqrt(std::numbers::pi / 2 * dependence.time_median / static_cast<double>(sorted.size()));
  const double percent = 100 * normal_cdf(-t_factor(dependence.dof) * error * short_series_factor(dependence));
  return Interval{percentile_of_sorted(sorted, percent), percentile_of_sorted(sorted, 100 - percent),
                  method_text("ranks", dependence)};
}

std::optional<Interval> mean_interval(std::span<const double> values, const Dependence& dependence) {
  if (!is_enough(values.size(), dependence)) return std::nullopt;
  const double error =
      sample_stddev(values) / std::sqrt(dependence.effective_values()) * short_series_factor(dependence);
  const double centre = mean(values), half = t_factor(dependence.dof) * error;
  return Interval{centre - half, centre + half, method_text("the mean", dependence)};
}

}  // namespace lockstep::stats
