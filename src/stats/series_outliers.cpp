#include "stats/series_outliers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "stats/autocorrelation.h"
#include "stats/statistics.h"

namespace lockstep::stats {
namespace {

constexpr double kFence = 5;
constexpr size_t kRegimeSteps = 5;
constexpr double kPeriodicShare = 0.7;  // of the places of the grid, and of the places between first and last
constexpr size_t kMinPeriodic = 3;

void mark_regimes(std::vector<Outlier>& outliers) {
  for (size_t begin = 0; begin < outliers.size();) {
    size_t end = begin + 1;
    while (end < outliers.size() && outliers[end].index == outliers[end - 1].index + 1) ++end;
    if (end - begin >= kRegimeSteps)
      for (size_t i = begin; i < end; ++i) outliers[i].kind = OutlierKind::kRegime;
    begin = end;
  }
}

/// Outliers on the grid first + m x period (one step of slack, 2 % for long periods), and the number of grid places
/// between the first and the last of them.
struct Grid {
  std::vector<size_t> members{};
  size_t num_places = 0;
};

Grid fit_grid(std::span<const Outlier> outliers, size_t first, size_t period) {
  Grid grid;
  const double slack = std::max(1.0, 0.02 * static_cast<double>(period));
  size_t last_place = std::numeric_limits<size_t>::max();
  for (size_t i = first; i < outliers.size(); ++i) {
    if (outliers[i].kind != OutlierKind::kIsolated) continue;
    const double distance = static_cast<double>(outliers[i].index - outliers[first].index),
                 place = std::round(distance / static_cast<double>(period));
    if (std::fabs(distance - place * static_cast<double>(period)) > slack || static_cast<size_t>(place) == last_place)
      continue;
    last_place = static_cast<size_t>(place);
    grid.members.push_back(i);
  }
  grid.num_places = last_place + 1;
  return grid;
}

/// Looks for the period that explains most of the outliers that are no regime, takes it, and looks again.
void mark_periodic(std::vector<Outlier>& outliers) {
  for (int round = 0; round < 3; ++round) {
    std::vector<size_t> candidates;
    for (size_t i = 0; i < outliers.size(); ++i)
      if (outliers[i].kind == OutlierKind::kIsolated) candidates.push_back(i);
    Grid best;
    for (size_t a = 0; a < std::min<size_t>(candidates.size(), 12); ++a) {
      for (size_t b = a + 1; b < std::min(candidates.size(), a + 6); ++b) {
        const size_t period = outliers[candidates[b]].index - outliers[candidates[a]].index;
        if (period < 4) continue;
        Grid grid = fit_grid(outliers, candidates[a], period);
        const bool is_filled =
            static_cast<double>(grid.members.size()) >= kPeriodicShare * static_cast<double>(grid.num_places);
        if (is_filled && grid.members.size() > best.members.size()) best = std::move(grid);
      }
    }
    if (best.members.size() < kMinPeriodic) return;
    for (const size_t member : best.members) outliers[member].kind = OutlierKind::kPeriodic;
  }
}

}  // namespace

std::vector<Outlier> find_outliers(std::span<const double> values) {
  std::vector<Outlier> outliers;
  const double centre = median(values), limit = kFence * robust_stddev(values, centre);
  if (limit == 0) return outliers;
  for (size_t i = 0; i < values.size(); ++i)
    if (std::fabs(values[i] - centre) > limit) outliers.push_back({.index = i, .step_ms = values[i]});
  mark_regimes(outliers);
  mark_periodic(outliers);
  return outliers;
}

double find_elbow(std::span<const double> sorted) {
  const size_t count = sorted.size(), window = std::max<size_t>(2, count * 3 / 10);
  if (count < 10) return 1;
  size_t begin = 0;
  for (size_t i = 0; i + window <= count; ++i)
    if (sorted[i + window - 1] - sorted[i] < sorted[begin + window - 1] - sorted[begin]) begin = i;
  const double centre = (sorted[begin] + sorted[begin + window - 1]) / 2;
  const size_t num_below = static_cast<size_t>(std::upper_bound(sorted.begin(), sorted.end(), centre) - sorted.begin());
  const double deviation = robust_stddev(sorted.first(std::max<size_t>(1, num_below)), centre);
  // The shortest 30 % of a normal law are 0.77 deviations wide; of a law whose peak is its minimum only this width is a
  // measure.
  const double width = (sorted[begin + window - 1] - sorted[begin]) / 0.77;
  const double limit = centre + kFence * std::max({deviation, width, 1e-4 * std::fabs(centre)});
  return static_cast<double>(std::upper_bound(sorted.begin(), sorted.end(), limit) - sorted.begin()) /
         static_cast<double>(count);
}

std::vector<double> block_means(std::span<const double> values, size_t block) {
  std::vector<double> means;
  means.reserve(values.size() / block);
  for (size_t begin = 0; begin + block <= values.size(); begin += block)
    means.push_back(mean(values.subspan(begin, block)));
  return means;
}

namespace {
/// Do values come back after three steps or more, as those of a slow step at equal distances do? Where every other one
/// does, neither half is the rule.
bool does_repeat(std::span<const double> values) {
  constexpr size_t kShortest = 3, kLongest = 8;
  constexpr double kSame = 0.5;
  if (autocorrelation(values, 2) > kSame) return false;
  for (size_t lag = kShortest; lag <= kLongest; ++lag)
    if (autocorrelation(values, lag) > kSame) return true;
  return false;
}
}  // namespace

size_t find_pacing_block(std::span<const double> values) {
  constexpr size_t kBlocks[] = {2, 5, 10};
  constexpr size_t kMinBlocks = 20;
  constexpr double kQueuedShare = 0.2;  // of the mean; shorter steps were queued and not done
  const double single = sample_stddev(values);
  if (values.size() < 2 * kMinBlocks || single == 0) return 1;
  size_t best = 1;
  double least = single;
  const bool is_mostly_queued = median(values) < kQueuedShare * mean(values);
  bool is_paced = autocorrelation(values, 1) < -0.3 && (is_mostly_queued || !does_repeat(values));
  for (const size_t block : kBlocks) {
    if (values.size() / block < kMinBlocks) break;
    const double k = static_cast<double>(block), spread = sample_stddev(block_means(values, block));
    // Half-way, in the exponent, between independent noise and a fixed sum.
    is_paced = is_paced || (is_mostly_queued && block >= 10 && spread < single * std::pow(k, -0.75));
    if (spread * std::sqrt(k) < least * 0.9) least = spread * std::sqrt(k), best = block;
  }
  return is_paced ? std::max<size_t>(best, 2) : 1;
}

}  // namespace lockstep::stats
