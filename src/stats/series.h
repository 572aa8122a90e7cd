#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stats/series_summary.h"

namespace lockstep::stats {

/// Summary of a run's step times (one per optimiser step, in order, finite and > 0; at least one).
SeriesSummary summarise_series(std::span<const double> step_ms, const SeriesOptions& options = {});

/// Fewer values than this tell nothing of the slowest hundredth.
inline constexpr size_t kMinP99Values = 100;

/// Several runs of one configuration.
struct PointEstimate {
  double median_ms = 0;  ///< Geometric mean over the allocations, each that of its run medians (with only one: over its
                         ///< runs); inside `median_interval`. One run: its own.
  double mean_ms = 0;    ///< Total time over total steps.
  /// Of the allocations; with only one, of its run medians; with one run, the run's own.
  std::optional<Interval> median_interval{};
  std::optional<double> olympic_mean_ms{};  ///< Mean of run means without the best and the worst, from three runs on.
  size_t num_runs = 0, num_steps = 0;
  std::vector<std::string> notes{};
};
/// `allocations` names the job of each run: runs that share one are no independent repeats. Empty names (or none at
/// all) stand for a job each.
PointEstimate combine_runs(std::span<const SeriesSummary> runs, std::span<const std::string> allocations = {});
/// One value for each allocation, the geometric mean of its own (all > 0), in the order in which they first appear;
/// empty names stand for themselves.
std::vector<double> values_by_allocation(std::span<const double> values, std::span<const std::string> allocations);

/// The one value of several runs, or of the jobs they were in: the geometric mean of theirs (all > 0). The median of a
/// few values lies outside the interval of their mean where they are skewed or fall in two groups.
double centre_of_runs(std::span<const double> values);

/// Comparison of two sides, each several runs (or blocks of one run).
struct Comparison {
  double ratio = 1;  ///< Centre of a / that of b (paired: that of the ratios); inside `interval`.
  std::optional<Interval> interval{};
  std::optional<double> rank_p{};  ///< Two-sided p-value of the Mann-Whitney test; not of pairs.
};
/// `a` and `b` are paired by index when `is_paired` (equal length), else compared as two samples (Mann-Whitney beside
/// the interval). A single value against a few is given their spread. The interval's arms are at least `least_log_half`
/// on logarithms: what rounding hides. The centre of a side is the median of the logarithms where both are long series
/// of steps, else centre_of_runs.
enum class SampleKind { kSteps, kRuns };
Comparison compare_samples(std::span<const double> a, std::span<const double> b, bool is_paired,
                           double least_log_half = 0, SampleKind kind = SampleKind::kSteps);

/// A distribution of bounded size that can be pooled with others: each value with the number of steps it stands for.
struct WeightedValue {
  double value = 0, weight = 0;
};
/// Ascending, equal values as one; exact for up to `max_points` values, else the middle ones of so many equal shares of
/// them.
std::vector<WeightedValue> weighted_values(std::span<const double> values, size_t max_points = 1000);
/// Percentile (0 to 100) of such values, ascending; with whole weights that of the values written out as often as they
/// weigh.
double weighted_percentile(std::span<const WeightedValue> ascending, double p);

}  // namespace lockstep::stats
