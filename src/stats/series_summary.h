#pragma once
#include <cstddef>
#include <optional>
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
  /// Each value is of one step and none is missing between two: only then launch pacing is looked for.
  bool has_every_step = true;
  double least_rounding = 0;  ///< Share that the source's rounding hides of any mean, whatever the values show.
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
  /// Values / autocorrelation time: how many independent ones they are worth; never more than there are.
  double effective_steps = 0;
  double resolution_ms = 0;  ///< Digit to which the source prints its times, as far as they show it; 0: none. No
                             ///< interval is narrower than it.
  double median_ms = 0, mean_ms = 0, trimmed_mean_ms = 0, min_ms = 0, max_ms = 0;
  double p90_ms = 0, p95_ms = 0;
  std::optional<double> p99_ms{};  ///< From 100 measured steps on.
  double coefficient_of_variation = 0;
  std::optional<Interval> median_interval{};  ///< Absent when the steps are too few; `notes` says so.
  std::optional<Interval> mean_interval{};
  std::optional<Interval> p90_interval{}, p99_interval{};  ///< Likewise absent; p99's needs at least 368 steps.
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

}  // namespace lockstep::stats
