#include "stats/series_interval.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

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

/// Ranks from 1 of `count` independent values between which their quantile lies, each end missed with at most `tail`;
/// 0 or above `count` where no value lies that far out. (The number of values below the quantile has a binomial law.)
std::pair<size_t, size_t> ranks_around_quantile(size_t count, double share, double tail) {
  constexpr double kNegligible = 1e-15;  // of the largest; so a long series costs its square root
  const auto n = static_cast<double>(count);
  const auto odds_of_next = [&](size_t k) {  // P(k + 1) / P(k)
    const auto number = static_cast<double>(k);
    return (n - number) / (number + 1) * share / (1 - share);
  };
  const auto mode = std::min(count, static_cast<size_t>((n + 1) * share));
  std::vector<double> law{1};  // of the numbers `first` to `last`
  size_t first = mode, last = mode;
  for (; first > 0 && law.back() > kNegligible; --first) law.push_back(law.back() / odds_of_next(first - 1));
  std::reverse(law.begin(), law.end());
  for (; last < count && law.back() > kNegligible; ++last) law.push_back(law.back() * odds_of_next(last));
  const double sum = std::accumulate(law.begin(), law.end(), 0.0);
  // The quantile lies below value `low` when fewer than `low` values lie below it, and above value `high` when at least
  // `high` do.
  const auto probability = [&](size_t k) { return law[k - first] / sum; };
  size_t low = first, high = last + 1;
  for (double below = 0; low <= last && below + probability(low) <= tail; ++low) below += probability(low);
  for (double above = 0; high > first && above + probability(high - 1) <= tail; --high) above += probability(high - 1);
  return {low, high};
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

std::optional<Interval> quantile_interval(std::span<const double> sorted, double percent,
                                          const Dependence& dependence) {
  if (!is_enough(sorted.size(), dependence)) return std::nullopt;
  const auto count = static_cast<double>(sorted.size());
  const double effective = std::floor(std::min(dependence.effective_values(), count));
  const double tail = normal_cdf(-t_factor(dependence.dof));
  const auto [low, high] = ranks_around_quantile(static_cast<size_t>(effective), percent / 100, tail);
  if (low < 1 || static_cast<double>(high) > effective) return std::nullopt;
  // Each independent value stands for so many: the first of the lower ones, and the last of the upper ones.
  const double each = count / effective;
  const auto first = static_cast<size_t>(std::floor(static_cast<double>(low - 1) * each)),
             end = std::min(sorted.size(), static_cast<size_t>(std::ceil(static_cast<double>(high) * each)));
  return Interval{sorted[first], sorted[end - 1], method_text("ranks", dependence)};
}

std::optional<Interval> mean_interval(std::span<const double> values, const Dependence& dependence) {
  if (!is_enough(values.size(), dependence)) return std::nullopt;
  const double error =
      sample_stddev(values) / std::sqrt(dependence.effective_values()) * short_series_factor(dependence);
  const double centre = mean(values), half = t_factor(dependence.dof) * error;
  return Interval{centre - half, centre + half, method_text("the mean", dependence)};
}

}  // namespace lockstep::stats
