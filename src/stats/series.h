#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::stats {

/// A 95 % confidence interval and how it was made ("Student t with 9 degrees of freedom on ranks, autocorrelation
/// time 3.1").
struct Interval {
  double low = 0, high = 0;
  std::string method{};
};

/// A step far from the rest: |t - median| > 5 x 1.4826 x MAD.
enum class OutlierKind { kIsolated, kPeriodic, kRegime };
struct Outlier {
  size_t index = 0;  ///< Into the series.
  double step_ms = 0;
  OutlierKind kind = OutlierKind::kIsolated;
};

struct SeriesOptions {
  size_t min_warmup_steps = 10;
  double min_warmup_s = 0;               ///< Warm-up lasts at least this long too (30 s for real runs).
  std::optional<size_t> warmup_steps{};  ///< Given by the user instead of detected.
};

/// A stretch of measured steps between two changes of level.
struct Level {
  size_t begin = 0, end = 0;  ///< Steps [begin, end) of the series.
  double median_ms = 0;
  std::optional<Interval> median_interval{};
};

/// What the step times of one run say. All times in ms.
struct SeriesSummary {
  size_t num_steps = 0;         ///< All.
  size_t num_warmup_steps = 0;  ///< Left out, from the start.
  size_t num_measured_steps = 0;
  double measured_s = 0;  ///< Their sum.
  /// Steps whose mean stands for one value in all that follows; above 1 where single steps show launch pacing.
  size_t block_steps = 1;
  double effective_steps = 0;  ///< Values / autocorrelation time: how many independent ones they are worth.
  double lag1_autocorrelation = 0;
  double resolution_ms = 0;  ///< Digit to which the source prints its times, as far as they show it; 0: none. No
                             ///< interval is narrower than it.
  double median_ms = 0, mean_ms = 0, trimmed_mean_ms = 0, min_ms = 0, max_ms = 0;
  double p90_ms = 0, p95_ms = 0;
  std::optional<double> p99_ms{};  ///< From 100 measured steps on.
  double coefficient_of_variation = 0;
  std::optional<Interval> median_interval{};  ///< Absent when the steps are too few; `notes` says so.
  std::optional<Interval> mean_interval{};
  double elbow = 1;      ///< Share of undisturbed steps: where the CDF bends into its tail.
  double tail_cost = 0;  ///< mean / median - 1.
  std::vector<Outlier> outliers{};
  double median_without_outliers_ms = 0, mean_without_outliers_ms = 0;
  bool is_steady = true;  ///< Quarters agree.
  /// Relative change of the median per 1,000 steps, where it differs from 0.
  std::optional<double> drift_per_1000_steps{};
  std::vector<size_t> level_shifts{};  ///< Steps at which the level changes.
  std::vector<Level> levels{};         ///< The stretches between them; empty without a shift.
  bool is_dispatch_limited = false;    ///< Single steps show launch pacing, not execution: only block sums hold.
  bool is_warmup_too_long = false;     ///< More than half of the run.
  std::vector<std::string> notes{};    ///< In words: everything a reader must know before trusting the numbers.
};

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
  double between_run_cv = 0;                ///< 0 for one run.
  size_t num_runs = 0, num_steps = 0;
  std::vector<std::string> notes{};
};
/// `allocations` names the job of each run: runs that share one are no independent repeats. Empty names (or none at
/// all) stand for a job each.
PointEstimate combine_runs(std::span<const SeriesSummary> runs, std::span<const std::string> allocations = {});
/// One value for each allocation, the geometric mean of its own (all > 0), in the order in which they first appear;
/// empty names stand for themselves.
std::vector<double> values_by_allocation(std::span<const double> values, std::span<const std::string> allocations);

/// Comparison of two sides, each several runs (or blocks of one run).
struct Comparison {
  double ratio = 1;  ///< side_centre of a / that of b (paired: that of the ratios); inside `interval`.
  std::optional<Interval> interval{};
  std::string verdict{};  ///< One plain sentence.
};
/// `a` and `b` are paired by index when `is_paired` (equal length), else compared as two samples (Mann-Whitney beside
/// the interval). A single value against a few is given their spread. The interval's arms are at least `least_log_half`
/// on logarithms: what rounding hides.
Comparison compare_samples(std::span<const double> a, std::span<const double> b, bool is_paired,
                           double least_log_half = 0);

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
