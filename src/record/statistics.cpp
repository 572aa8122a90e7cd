#include "record/statistics.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace lockstep::record {
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
  LOCKSTEP_CHECK(p >= 0 && p <= 100, "p={}", p);
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const double position = p / 100 * static_cast<double>(sorted.size() - 1);
  const size_t below = std::min(static_cast<size_t>(position), sorted.size() - 1);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (position - static_cast<double>(below));
}

double sample_stddev(std::span<const double> values) {
  const double centre = mean(values);
  if (values.size() == 1) return 0;
  double squares = 0;
  for (const double value : values) squares += (value - centre) * (value - centre);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double interquartile_range(std::span<const double> values) { return percentile(values, 75) - percentile(values, 25); }

}  // namespace lockstep::record
