#include "stats/series_changes.h"

#include <algorithm>
#include <cmath>

#include "stats/autocorrelation.h"
#include "stats/distributions.h"
#include "stats/statistics.h"

namespace lockstep::stats {
namespace {

constexpr size_t kMinValues = 40;
constexpr size_t kMinLevelSteps = 10;
constexpr size_t kMaxLevels = 10;
// 99 % point of the largest standardised difference over all positions of a Brownian bridge within [0.05, 0.95]
// (Andrews 2003, table 1, one parameter: 13.01 for its square), and the chance that one normal value lies above it.
constexpr double kShiftQuantile = 3.61;
constexpr double kStretchQuantile = 4.5;  // likewise for two positions, by simulation
constexpr double kDriftLevel = 0.01;

/// A candidate change and what it leaves unexplained. The level differs in [begin, end).
struct Candidate {
  bool is_significant = false;
  double squares = 0;  ///< Sum of squared residuals.
  size_t begin = 0, end = 0;
};

/// What has been fitted takes dependence away: residuals that seem less than independent count as independent.
double variance_factor(const Dependence& dependence) { return std::max(1.0, dependence.time_mean); }

double sum_of_squares(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum;
}

/// Standardised difference of means inside and outside [begin, end), from running sums.
double standardised_gap(std::span<const double> sums, size_t begin, size_t end) {
  const double inside = static_cast<double>(end - begin), outside = static_cast<double>(sums.size() - 1) - inside;
  const double sum_inside = sums[end] - sums[begin];
  return (sum_inside / inside - (sums.back() - sum_inside) / outside) *
         std::sqrt(inside * outside / (inside + outside));
}

std::vector<double> running_sums(std::span<const double> values) {
  std::vector<double> sums{0};
  sums.reserve(values.size() + 1);
  for (const double value : values) sums.push_back(sums.back() + value);
  return sums;
}

/// Takes [begin, end) as another level and compares the largest standardised difference with the noise that is left.
Candidate judge(std::span<const double> scores, std::span<const double> sums, size_t begin, size_t end, double quantile,
                size_t num_fitted) {
  const double n = static_cast<double>(scores.size()), inside = static_cast<double>(end - begin);
  const double sum_inside = sums[end] - sums[begin], level_inside = sum_inside / inside,
               level_outside = (sums.back() - sum_inside) / (n - inside);
  std::vector<double> residuals;
  residuals.reserve(scores.size());
  for (size_t i = 0; i < scores.size(); ++i)
    residuals.push_back(scores[i] - (i >= begin && i < end ? level_inside : level_outside));
  Candidate result{.squares = sum_of_squares(residuals), .begin = begin, .end = end};
  const Dependence dependence = estimate_dependence(residuals, num_fitted);
  const double variance = result.squares / (n - 1 - static_cast<double>(num_fitted)) * variance_factor(dependence);
  const double limit = -student_t_quantile(normal_cdf(-quantile), dependence.dof);
  result.is_significant = std::fabs(standardised_gap(sums, begin, end)) > limit * std::sqrt(variance);
  return result;
}

size_t min_level_steps(size_t count) { return std::max(kMinLevelSteps, count / 20); }

/// The step from which on the level differs most.
Candidate test_shift(std::span<const double> scores) {
  const size_t count = scores.size(), margin = min_level_steps(count);
  const std::vector<double> sums = running_sums(scores);
  size_t best = margin;
  double largest = -1;
  for (size_t k = margin; k + margin <= count; ++k)
    if (const double gap = std::fabs(standardised_gap(sums, k, count)); gap > largest) largest = gap, best = k;
  return judge(scores, sums, best, count, kShiftQuantile, 2);  // fitted: the other level, and where it begins
}

/// The stretch inside the series whose level differs most from the level before and after it: which a single shift
/// hardly shows.
Candidate test_stretch(std::span<const double> scores) {
  const size_t count = scores.size(), margin = min_level_steps(count), stride = std::max<size_t>(1, count / 60);
  const std::vector<double> sums = running_sums(scores);
  size_t best_begin = margin, best_end = 2 * margin;
  double largest = -1;
  const auto consider = [&](size_t begin, size_t end) {
    if (begin < margin || end < begin + margin || end + margin > count) return;
    if (const double gap = std::fabs(standardised_gap(sums, begin, end)); gap > largest)
      largest = gap, best_begin = begin, best_end = end;
  };
  for (size_t begin = margin; begin < count; begin += stride)
    for (size_t end = begin + margin; end < count; end += stride) consider(begin, end);
  const size_t coarse_begin = best_begin, coarse_end = best_end;
  for (size_t begin = coarse_begin - std::min(coarse_begin, stride); begin <= coarse_begin + stride; ++begin)
    for (size_t end = coarse_end - stride; end <= coarse_end + stride; ++end) consider(begin, end);
  return judge(scores, sums, best_begin, best_end, kStretchQuantile, 3);
}

Candidate test_drift(std::span<const double> scores) {
  const double n = static_cast<double>(scores.size()), centre = (n - 1) / 2;
  double cross = 0, total = 0;
  for (size_t i = 0; i < scores.size(); ++i) cross += (static_cast<double>(i) - centre) * scores[i], total += scores[i];
  const double times_squares = n * (n * n - 1) / 12, slope = cross / times_squares;
  std::vector<double> residuals;
  residuals.reserve(scores.size());
  for (size_t i = 0; i < scores.size(); ++i)
    residuals.push_back(scores[i] - total / n - slope * (static_cast<double>(i) - centre));
  Candidate result{.squares = sum_of_squares(residuals)};
  const Dependence dependence = estimate_dependence(residuals, 1);
  const double error = std::sqrt(result.squares / (n - 2) * variance_factor(dependence) / times_squares);
  result.is_significant = std::fabs(slope) > -student_t_quantile(kDriftLevel / 2, dependence.dof) * error;
  return result;
}

/// Median of the slopes between all pairs of block medians (at most 40 blocks), per step.
double theil_sen_slope(std::span<const double> values) {
  const size_t num_blocks = std::min<size_t>(40, values.size());
  std::vector<double> middles, times, slopes;
  for (size_t block = 0; block < num_blocks; ++block) {
    const size_t begin = block * values.size() / num_blocks, end = (block + 1) * values.size() / num_blocks;
    middles.push_back(median(values.subspan(begin, end - begin)));
    times.push_back(static_cast<double>(begin + end) / 2);
  }
  for (size_t a = 0; a < num_blocks; ++a)
    for (size_t b = a + 1; b < num_blocks; ++b) slopes.push_back((middles[b] - middles[a]) / (times[b] - times[a]));
  return median(slopes);
}

/// Cuts where the level changes and looks again at each piece.
void split_levels(std::span<const double> values, size_t offset, std::vector<size_t>& shifts) {
  if (values.size() < kMinValues || shifts.size() + 1 >= kMaxLevels) return;
  const std::vector<double> scores = normal_scores(values);
  Candidate change = test_shift(scores);
  if (!change.is_significant) change = test_stretch(scores);
  if (!change.is_significant) return;
  split_levels(values.first(change.begin), offset, shifts);
  shifts.push_back(offset + change.begin);
  split_levels(values.subspan(change.begin, change.end - change.begin), offset + change.begin, shifts);
  if (change.end == values.size()) return;
  shifts.push_back(offset + change.end);
  split_levels(values.subspan(change.end), offset + change.end, shifts);
}

}  // namespace

SeriesChanges find_changes(std::span<const double> values) {
  SeriesChanges changes;
  if (values.size() < kMinValues) return changes;
  const std::vector<double> scores = normal_scores(values);
  const Candidate drift = test_drift(scores), shift = test_shift(scores);
  const double n = static_cast<double>(values.size());
  // Both explain a part of each other: the one that leaves less counts; the place of a shift is one parameter more
  // (BIC).
  const bool is_drift =
      drift.is_significant && (!shift.is_significant || drift.squares < shift.squares * std::exp(std::log(n) / n));
  if (is_drift) {
    const double centre = median(values);
    if (const double slope = theil_sen_slope(values); slope != 0 && centre > 0)
      changes.drift_per_1000 = 1000 * slope / centre;
  } else {
    split_levels(values, 0, changes.shifts);
  }
  return changes;
}

}  // namespace lockstep::stats
