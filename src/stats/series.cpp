#include "stats/series.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "stats/autocorrelation.h"
#include "stats/distributions.h"
#include "stats/series_changes.h"
#include "stats/series_interval.h"
#include "stats/series_outliers.h"
#include "stats/series_warmup.h"
#include "stats/statistics.h"

namespace lockstep::stats {
namespace {

constexpr double kSteadyTolerance = 0.01;  // relative; smaller differences are shown but do not matter
constexpr double kSkewFactor = 25;  // Cochran's rule: a mean of n values is near normal when n > 25 x skewness squared
constexpr double kTrimmedShare = 0.05;
constexpr size_t kMinDependenceValues = 8;

double skewness(std::span<const double> values) {
  const double centre = mean(values), deviation = sample_stddev(values);
  double cubes = 0;
  for (const double value : values) cubes += std::pow(value - centre, 3);
  return deviation > 0 ? cubes / static_cast<double>(values.size()) / std::pow(deviation, 3) : 0;
}

/// Steps that the floor of `options` leaves out: so many steps and so many seconds, whichever is later.
size_t warmup_floor(std::span<const double> step_ms, const SeriesOptions& options) {
  size_t num_steps = 0;
  for (double elapsed_ms = 0; num_steps < step_ms.size() &&
                              (num_steps < options.min_warmup_steps || elapsed_ms < 1000 * options.min_warmup_s);)
    elapsed_ms += step_ms[num_steps++];
  return num_steps;
}

void choose_warmup(std::span<const double> step_ms, const SeriesOptions& options, SeriesSummary& summary) {
  const size_t count = step_ms.size();
  if (options.warmup_steps) {
    summary.num_warmup_steps = std::min(*options.warmup_steps, count - 1);
    summary.is_warmup_too_long = 2 * *options.warmup_steps > count;
    if (*options.warmup_steps >= count)
      summary.notes.push_back(
          fmt::format("the given warm-up of {} steps leaves nothing of {}: only the last step counts",
                      *options.warmup_steps, count));
    else if (summary.is_warmup_too_long)
      summary.notes.push_back(fmt::format("the given warm-up of {} steps is more than half of the run of {}",
                                          *options.warmup_steps, count));
    return;
  }
  const size_t floor = warmup_floor(step_ms, options), detected = find_warmup_end(step_ms), half = count / 2;
  summary.num_warmup_steps = std::min(std::max(floor, detected), half);
  if (detected >= half && count >= kMinIntervalValues) {
    summary.is_warmup_too_long = true;
    summary.notes.push_back(
        "the run gets faster over its whole first half: its warm-up has not ended, the second half is shown");
  } else if (floor > half) {
    summary.is_warmup_too_long = true;
    summary.notes.push_back(
        fmt::format("the run of {} steps is too short for a warm-up of {} steps: only the first {} are left out", count,
                    floor, half));
  }
}

/// Medians of the quarters differ by more than 1 % and by more than chance explains (Bonferroni over the six pairs, 1
/// %).
bool do_quarters_differ(std::span<const double> values, const Dependence& dependence) {
  const size_t count = values.size();
  if (count < kMinIntervalValues) return false;
  double low = 0, high = 0;
  for (size_t quarter = 0; quarter < 4; ++quarter) {
    const size_t begin = quarter * count / 4, end = (quarter + 1) * count / 4;
    const double middle = median(values.subspan(begin, end - begin));
    low = quarter == 0 ? middle : std::min(low, middle);
    high = quarter == 0 ? middle : std::max(high, middle);
  }
  const double centre = median(values);
  const double error =
      robust_stddev(values, centre) * std::sqrt(2 * 1.5708 * dependence.time_median * 4 / static_cast<double>(count));
  return high - low > kSteadyTolerance * centre && high - low > -student_t_quantile(0.01 / 12, dependence.dof) * error;
}

std::optional<Interval> interval_of_level(std::span<const double> values) {
  if (values.size() < kMinIntervalValues) return std::nullopt;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return median_interval(sorted, estimate_dependence(normal_scores(values)));
}

/// Values with their places, without isolated and periodic outliers: these interrupt the dependence between steps but
/// do not end it.
struct Undisturbed {
  std::vector<double> values{};
  std::vector<size_t> places{};
};

Undisturbed without_spikes(std::span<const double> values, std::span<const Outlier> outliers) {
  Undisturbed rest;
  rest.values.reserve(values.size());
  rest.places.reserve(values.size());
  auto next = outliers.begin();
  for (size_t i = 0; i < values.size(); ++i) {
    const bool is_outlier = next != outliers.end() && next->index == i;
    if (!is_outlier || next->kind == OutlierKind::kRegime) {
      rest.values.push_back(values[i]);
      rest.places.push_back(i);
    }
    if (is_outlier) ++next;
  }
  return rest;
}

/// The coarsest power of ten below a hundredth of the median of which all values are multiples; 0 where they show none.
/// Values that are all the same and multiples of none must have been rounded before they were converted: the coarsest
/// is taken.
double printed_resolution(std::span<const double> values, double median_ms) {
  constexpr int kNumDigits = 5;
  const int coarsest = static_cast<int>(std::floor(std::log10(median_ms / 100)));
  for (int exponent = coarsest; exponent > coarsest - kNumDigits; --exponent) {
    const double unit = std::pow(10.0, exponent);
    if (std::all_of(values.begin(), values.end(),
                    [&](double value) { return std::fabs(value / unit - std::round(value / unit)) < 1e-6; }))
      return unit;
  }
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return values.size() > 1 && *least == *most ? std::pow(10.0, coarsest) : 0;
}

void widen(std::optional<Interval>& interval, double centre, double half) {
  if (!interval || (centre - interval->low >= half && interval->high - centre >= half)) return;
  *interval = {std::min(interval->low, centre - half), std::max(interval->high, centre + half),
               interval->method + ", widened to the printed digit"};
}

/// No interval is narrower than the digit that the source prints; of the mean only where the values do not scatter over
/// several digits, which average out.
void apply_resolution(std::span<const double> measured, double least_rounding, SeriesSummary& summary) {
  summary.resolution_ms =
      std::max(printed_resolution(measured, summary.median_ms), 2 * least_rounding * summary.median_ms);
  widen(summary.median_interval, summary.median_ms, summary.resolution_ms / 2);
  widen(summary.p90_interval, summary.p90_ms, summary.resolution_ms / 2);
  if (summary.p99_ms) widen(summary.p99_interval, *summary.p99_ms, summary.resolution_ms / 2);
  if (summary.max_ms - summary.min_ms <= summary.resolution_ms)
    widen(summary.mean_interval, summary.mean_ms, summary.resolution_ms / 2);
}

/// Drift, shifts and the levels between them; indices of values become steps of the series.
void describe_changes(std::span<const double> values, const Undisturbed& undisturbed, const Dependence& dependence,
                      SeriesSummary& summary) {
  SeriesChanges changes = find_changes(undisturbed.values);
  for (size_t& shift : changes.shifts) shift = undisturbed.places[shift];
  const auto step_of = [&](size_t value) { return summary.num_warmup_steps + value * summary.block_steps; };
  if (changes.drift_per_1000) {
    const double over_run = *changes.drift_per_1000 * static_cast<double>(values.size()) / 1000;
    summary.drift_per_1000_steps = *changes.drift_per_1000 / static_cast<double>(summary.block_steps);
    summary.is_steady = std::fabs(over_run) <= kSteadyTolerance;
    summary.notes.push_back(
        fmt::format("step times drift by {:+.2f} % per 1,000 steps: the median describes the middle of the run only",
                    100 * *summary.drift_per_1000_steps));
  }
  double low = summary.median_ms, high = low;
  for (size_t i = 0; !changes.shifts.empty() && i <= changes.shifts.size(); ++i) {
    const size_t begin = i == 0 ? 0 : changes.shifts[i - 1],
                 end = i == changes.shifts.size() ? values.size() : changes.shifts[i];
    const auto part = values.subspan(begin, end - begin);
    const size_t end_step = end == values.size() ? summary.num_steps : step_of(end);
    summary.levels.push_back({.begin = step_of(begin),
                              .end = end_step,
                              .median_ms = median(part),
                              .median_interval = interval_of_level(part)});
    if (i > 0) summary.level_shifts.push_back(step_of(begin));
    low = std::min(low, summary.levels.back().median_ms);
    high = std::max(high, summary.levels.back().median_ms);
  }
  if (!summary.levels.empty()) {
    summary.is_steady = high - low <= kSteadyTolerance * summary.median_ms;
    std::string text;
    for (const Level& level : summary.levels)
      text += fmt::format("{}{:.4g} ms from step {}", text.empty() ? "" : ", ", level.median_ms, level.begin);
    summary.notes.push_back(fmt::format("the level of the step times changes: {}", text));
  }
  if (summary.is_steady && do_quarters_differ(values, dependence)) {
    summary.is_steady = false;
    summary.notes.push_back(
        "the medians of the run's quarters differ by more than chance explains: there is no steady state");
  }
}

/// Moves the outliers into the summary, with steps of the series instead of places among the values.
void describe_outliers(std::span<const double> values, std::vector<Outlier> outliers, SeriesSummary& summary) {
  std::vector<bool> is_outlier(values.size());
  size_t counts[3] = {};
  for (Outlier& outlier : outliers) {
    is_outlier[outlier.index] = true;
    ++counts[static_cast<size_t>(outlier.kind)];
    outlier.index = summary.num_warmup_steps + outlier.index * summary.block_steps;
  }
  std::vector<double> rest;
  rest.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    if (!is_outlier[i]) rest.push_back(values[i]);
  summary.outliers = std::move(outliers);
  // never empty: at most half of the values lie beyond 5 deviations of the median
  summary.median_without_outliers_ms = median(rest);
  summary.mean_without_outliers_ms = mean(rest);
  if (!summary.outliers.empty())
    summary.notes.push_back(
        fmt::format("{} of {} values lie far from the median and are kept: {} isolated, {} periodic, {} in a regime; "
                    "the mean is {:.4g} ms with and {:.4g} ms without them",
                    summary.outliers.size(), values.size(), counts[0], counts[1], counts[2], summary.mean_ms,
                    summary.mean_without_outliers_ms));
}

void describe_distribution(std::span<const double> values, std::span<const double> sorted, SeriesSummary& summary) {
  summary.median_ms = percentile_of_sorted(sorted, 50);
  summary.mean_ms = mean(values);
  summary.trimmed_mean_ms = trimmed_mean_of_sorted(sorted, kTrimmedShare);
  summary.min_ms = sorted.front();
  summary.max_ms = sorted.back();
  summary.p90_ms = percentile_of_sorted(sorted, 90);
  summary.p95_ms = percentile_of_sorted(sorted, 95);
  if (sorted.size() >= kMinP99Values) summary.p99_ms = percentile_of_sorted(sorted, 99);
  summary.coefficient_of_variation = sample_stddev(values) / summary.mean_ms;
  summary.elbow = find_elbow(sorted);
  summary.tail_cost = summary.mean_ms / summary.median_ms - 1;
  if (summary.elbow < 0.5)
    summary.notes.push_back(fmt::format("only {:.0f} % of the steps are undisturbed: the median itself is slowed down",
                                        100 * summary.elbow));
}

/// Dependence and all intervals. Fewer values than the model needs count as independent.
Dependence describe_intervals(std::span<const double> values, std::span<const double> sorted,
                              std::span<const double> undisturbed, SeriesSummary& summary) {
  Dependence dependence{.dof = std::max(1.0, static_cast<double>(values.size()) - 1)};
  if (values.size() >= kMinDependenceValues) dependence = estimate_dependence(normal_scores(values));
  // Spikes from outside interrupt the dependence and hide it; the far tail of dependent noise is part of it. The longer
  // time counts.
  if (undisturbed.size() >= kMinDependenceValues && undisturbed.size() < values.size())
    if (const Dependence rest = estimate_dependence(normal_scores(undisturbed)); rest.time_mean > dependence.time_mean)
      dependence = rest;
  dependence.num_values = values.size();
  summary.effective_steps = std::min(dependence.effective_values(), static_cast<double>(values.size()));
  summary.median_interval = median_interval(sorted, dependence);
  summary.mean_interval = mean_interval(values, dependence);
  summary.p90_interval = quantile_interval(sorted, 90, dependence);
  summary.p99_interval = quantile_interval(sorted, 99, dependence);
  if (!summary.median_interval)
    summary.notes.push_back(
        fmt::format("no interval: {} values worth {:.0f} independent ones are too few (at least {} and 4)",
                    values.size(), summary.effective_steps, kMinIntervalValues));
  if (summary.mean_interval && summary.effective_steps < kSkewFactor * skewness(values) * skewness(values))
    summary.notes.push_back(
        "the tail of the step times is too heavy for the interval of the mean to be trusted: read the median's");
  return dependence;
}

}  // namespace

SeriesSummary summarise_series(std::span<const double> step_ms, const SeriesOptions& options) {
  LOCKSTEP_CHECK(!step_ms.empty(), "no steps");
  for (const double value : step_ms) LOCKSTEP_CHECK(std::isfinite(value) && value > 0, "step_ms={}", value);
  SeriesSummary summary{.num_steps = step_ms.size()};
  choose_warmup(step_ms, options, summary);
  const std::span<const double> measured = step_ms.subspan(summary.num_warmup_steps);
  summary.num_measured_steps = measured.size();
  for (const double value : measured) summary.measured_s += value / 1000;
  summary.block_steps = options.has_every_step ? find_pacing_block(measured) : 1;
  std::vector<double> blocks;
  if (summary.block_steps > 1) {
    summary.is_dispatch_limited = true;
    summary.notes.push_back(fmt::format(
        "single steps show when work was queued, not when it was done: all figures are of means over {} steps",
        summary.block_steps));
    blocks = block_means(measured, summary.block_steps);
  }
  const std::span<const double> values = summary.is_dispatch_limited ? std::span<const double>(blocks) : measured;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  describe_distribution(values, sorted, summary);
  std::vector<Outlier> outliers = find_outliers(values);
  const Undisturbed undisturbed = without_spikes(values, outliers);
  const Dependence dependence = describe_intervals(values, sorted, undisturbed.values, summary);
  apply_resolution(measured, options.least_rounding, summary);
  describe_changes(values, undisturbed, dependence, summary);
  describe_outliers(values, std::move(outliers), summary);
  return summary;
}

std::vector<WeightedValue> weighted_values(std::span<const double> values, size_t max_points) {
  LOCKSTEP_CHECK(max_points >= 1, "max_points={}", max_points);
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t count = sorted.size(), num_shares = std::min(count, max_points);
  std::vector<WeightedValue> points;
  for (size_t i = 0; i < num_shares; ++i) {
    const size_t begin = i * count / num_shares, end = (i + 1) * count / num_shares;
    const double value = sorted[begin + (end - begin) / 2], weight = static_cast<double>(end - begin);
    if (!points.empty() && points.back().value == value)
      points.back().weight += weight;
    else
      points.push_back({.value = value, .weight = weight});
  }
  return points;
}

double weighted_percentile(std::span<const WeightedValue> ascending, double p) {
  LOCKSTEP_CHECK(!ascending.empty() && p >= 0 && p <= 100, "count={} p={}", ascending.size(), p);
  double total = 0;
  for (const WeightedValue& point : ascending) total += point.weight;
  const auto value_at = [&](double place) {
    double before = 0;
    for (const WeightedValue& point : ascending)
      if ((before += point.weight) > place) return point.value;
    return ascending.back().value;
  };
  const double position = p / 100 * std::max(0.0, total - 1), below = std::floor(position);
  return value_at(below) + (value_at(below + 1) - value_at(below)) * (position - below);
}

}  // namespace lockstep::stats
