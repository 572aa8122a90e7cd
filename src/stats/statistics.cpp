#include "stats/statistics.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace lockstep::stats {
namespace {

void check_values(std::span<const double> values) {
  LOCKSTEP_CHECK(!values.empty(), "no values");
  for (const double value : values) LOCKSTEP_CHECK(std::isfinite(value), "value={}", value);
}

}  // namespace

double mean(std::span<const double> values) {
  check_values(values);
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double median(std::span<const double> values) { return percentile(values, 50); }

double percentile(std::span<const double> values, double p) {
  check_values(values);
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return percentile_of_sorted(sorted, p);
}

double percentile_of_sorted(std::span<const double> sorted, double p) {
  LOCKSTEP_CHECK(!sorted.empty() && p >= 0 && p <= 100, "count={} p={}", sorted.size(), p);
  const double position = p / 100 * static_cast<double>(sorted.size() - 1);
  const size_t below = std::min(static_cast<size_t>(position), sorted.size() - 1);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (position - static_cast<double>(below));
}

double trimmed_mean_of_sorted(std::span<const double> sorted, double share) {
  LOCKSTEP_CHECK(share >= 0 && share < 0.5, "share={}", share);
  const auto num_cut = static_cast<size_t>(share * static_cast<double>(sorted.size()));
  return mean(sorted.subspan(num_cut, sorted.size() - 2 * num_cut));
}

double sample_stddev(std::span<const double> values) {
  const double centre = mean(values);
  if (values.size() == 1) return 0;
  double squares = 0;
  for (const double value : values) squares += (value - centre) * (value - centre);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double robust_stddev(std::span<const double> values, double centre) {
  check_values(values);
  std::vector<double> distances;
  distances.reserve(values.size());
  for (const double value : values) distances.push_back(std::fabs(value - centre));
  const double middle = median(distances);
  return middle > 0 ? 1.4826 * middle : 1.2533 * mean(distances);
}

}  // namespace lockstep::stats
