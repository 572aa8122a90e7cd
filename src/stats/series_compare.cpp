#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "stats/autocorrelation.h"
#include "stats/distributions.h"
#include "stats/series.h"
#include "stats/series_interval.h"
#include "stats/statistics.h"

namespace lockstep::stats {
namespace {

/// Centre of some logarithms and its interval.
struct LogEstimate {
  double centre = 0, variance = 0;  ///< Of the mean of a few independent values.
  std::optional<Interval> interval{};
  double time_median = 1;  ///< Autocorrelation time.
};

std::vector<double> logarithms(std::span<const double> values) {
  std::vector<double> logs;
  logs.reserve(values.size());
  for (const double value : values) {
    LOCKSTEP_CHECK(std::isfinite(value) && value > 0, "value={}", value);
    logs.push_back(std::log(value));
  }
  return logs;
}

/// `is_median`: of the median, which needs a series; else of the mean.
LogEstimate estimate_logs(std::span<const double> logs, bool is_median) {
  LogEstimate result{.centre = is_median ? median(logs) : mean(logs)};
  if (logs.size() >= kMinIntervalValues) {
    std::vector<double> sorted(logs.begin(), logs.end());
    std::sort(sorted.begin(), sorted.end());
    const Dependence dependence = estimate_dependence(normal_scores(logs));
    result.interval = is_median ? median_interval(sorted, dependence) : mean_interval(logs, dependence);
    result.time_median = dependence.time_median;
    return result;
  }
  if (logs.size() < 2) return result;
  const double count = static_cast<double>(logs.size());
  result.variance = sample_stddev(logs) * sample_stddev(logs) / count;
  const double half = t_factor(count - 1) * std::sqrt(result.variance);
  result.interval =
      Interval{result.centre - half, result.centre + half, fmt::format("Student t on {} log ratios", logs.size())};
  return result;
}

/// Welch's interval of the difference of two means.
Interval welch_interval(const LogEstimate& a, size_t num_a, const LogEstimate& b, size_t num_b) {
  const double variance = a.variance + b.variance, gap = a.centre - b.centre;
  const double parts = a.variance * a.variance / static_cast<double>(num_a - 1) +
                       b.variance * b.variance / static_cast<double>(num_b - 1);
  const double dof = parts > 0 ? std::max(1.0, variance * variance / parts) : static_cast<double>(num_a + num_b - 2);
  const double half = t_factor(dof) * std::sqrt(variance);
  return {gap - half, gap + half,
          fmt::format("Welch's t with {:.1f} degrees of freedom on logarithms of {} and {} values", dof, num_a, num_b)};
}

/// Student's interval where one side has a single value, which is given the spread of the other side's few.
Interval pooled_interval(const LogEstimate& a, size_t num_a, const LogEstimate& b, size_t num_b) {
  const double many = static_cast<double>(std::max(num_a, num_b)), gap = a.centre - b.centre;
  const double half =
      t_factor(many - 1) *
      std::sqrt((a.variance + b.variance) * (many + 1));  // variance of the mean of many, so of one: times many
  return {gap - half, gap + half,
          fmt::format("Student t with {:.0f} degrees of freedom on logarithms, the spread of {:.0f} values taken for "
                      "the single one too",
                      many - 1, many)};
}

/// The difference of two estimates whose own intervals need not be symmetric: their arms add in squares (Zou and
/// Donner's MOVER).
Interval difference_interval(const LogEstimate& a, const LogEstimate& b) {
  const double gap = a.centre - b.centre;
  const double down = std::hypot(a.centre - a.interval->low, b.interval->high - b.centre);
  const double up = std::hypot(a.interval->high - a.centre, b.centre - b.interval->low);
  return {gap - down, gap + up, "difference of two centres of logarithms, a long series' with its autocorrelation"};
}

/// Two-sided p-value of the Mann-Whitney test: exact for small samples without ties, else normal with the dependence of
/// the samples.
double mann_whitney_p(std::span<const double> a, std::span<const double> b, double time_a, double time_b) {
  const auto [wins, has_ties] = count_rank_wins(a, b);
  const size_t n = a.size(), m = b.size(), products = n * m;
  if (!has_ties && std::max(n, m) < kMinIntervalValues) {
    // ways[i][u]: orders of i values of a and the values of b so far in which a wins u times.
    std::vector<std::vector<double>> ways(n + 1, std::vector<double>(products + 1, 0));
    for (auto& row : ways) row[0] = 1;
    for (size_t j = 1; j <= m; ++j)
      for (size_t i = 1; i <= n; ++i)
        for (size_t u = products + 1; u-- > 0;) ways[i][u] = (u >= j ? ways[i - 1][u - j] : 0) + ways[i][u];
    const auto extreme = static_cast<size_t>(std::min(wins, static_cast<double>(products) - wins));
    const double total = std::accumulate(ways[n].begin(), ways[n].end(), 0.0);
    const double tail =
        std::accumulate(ways[n].begin(), ways[n].begin() + static_cast<std::ptrdiff_t>(extreme) + 1, 0.0);
    return std::min(1.0, 2 * tail / total);
  }
  const double pairs = static_cast<double>(products);
  const double variance = pairs * (static_cast<double>(m) * time_a + static_cast<double>(n) * time_b + 1) / 12;
  return std::min(1.0, 2 * normal_cdf(-std::max(0.0, std::fabs(wins - pairs / 2) - 0.5) / std::sqrt(variance)));
}

void note_runs(std::span<const SeriesSummary> runs, size_t num_values, PointEstimate& point) {
  const auto count = [&](auto&& is_counted) { return std::count_if(runs.begin(), runs.end(), is_counted); };
  if (runs.size() == 1)
    point.notes.push_back(
        "one run: the interval holds the noise inside it, not the difference between runs, which is usually larger");
  if (num_values == 2 || num_values == 3)
    point.notes.push_back(fmt::format(
        "{0} {1}s: Student's factor is {2:.1f} instead of 1.96, so the interval is wide; another {1} narrows it most",
        num_values, num_values < runs.size() ? "job" : "run", t_factor(static_cast<double>(num_values) - 1)));
  if (const auto num = count([](const SeriesSummary& run) { return !run.is_steady; }); num > 0)
    point.notes.push_back(fmt::format("{} of {} runs had no steady state", num, runs.size()));
  if (const auto num = count([](const SeriesSummary& run) { return run.is_warmup_too_long; }); num > 0)
    point.notes.push_back(fmt::format("{} of {} runs spent half of their steps or more warming up", num, runs.size()));
  if (const auto num = count([](const SeriesSummary& run) { return run.is_dispatch_limited; }); num > 0)
    point.notes.push_back(fmt::format(
        "{} of {} runs show launch pacing in single steps: means over several steps were used", num, runs.size()));
}

/// The centre of the values of allocations, or of runs of one allocation, and Student's interval of it, no narrower
/// than what each run knows of its own median.
void set_estimate(std::span<const SeriesSummary> runs, std::span<const double> values, const char* what,
                  PointEstimate& point) {
  if (runs.size() == 1) {
    point.median_ms = runs[0].median_ms;
    point.median_interval = runs[0].median_interval;
    return;
  }
  // On logarithms: times are positive, and so is the lower end however far the runs lie apart.
  const std::vector<double> logs = logarithms(values);
  const double count = static_cast<double>(logs.size()), centre = mean(logs);
  const double half = t_factor(count - 1) * sample_stddev(logs) / std::sqrt(count);
  double digit = 0, squares = 0;
  for (const SeriesSummary& run : runs) {
    digit = std::max(digit, run.resolution_ms / 2 / run.median_ms);
    if (run.median_interval) squares += std::pow(std::log(run.median_interval->high / run.median_interval->low) / 2, 2);
  }
  const double noise = std::sqrt(squares) / static_cast<double>(runs.size()), widest = std::max({half, digit, noise});
  point.median_ms = centre_of_runs(values);
  point.median_interval = Interval{std::exp(centre - widest), std::exp(centre + widest),
                                   fmt::format("Student t on logarithms of {} {}", logs.size(), what)};
  if (half >= widest) return;
  const bool is_rounded = digit >= noise;
  point.median_interval->method +=
      is_rounded ? ", widened to the printed digit" : ", widened to the noise inside the runs";
  point.notes.push_back(
      is_rounded ? "the runs agree to the printed digit: the interval is what rounding leaves open"
                 : "the runs agree better than each of them is known: the interval is that of the noise inside them");
}

}  // namespace

RankWins count_rank_wins(std::span<const double> a, std::span<const double> b) {
  std::vector<double> sorted(b.begin(), b.end());
  std::sort(sorted.begin(), sorted.end());
  RankWins result;
  for (const double x : a) {
    const auto [first, behind] = std::equal_range(sorted.begin(), sorted.end(), x);
    const auto num_lower = first - sorted.begin(), num_ties = behind - first;
    result.wins += static_cast<double>(num_lower) + static_cast<double>(num_ties) / 2;  // exact: halves, far below 2^53
    result.has_ties = result.has_ties || num_ties > 0;
  }
  return result;
}

double centre_of_runs(std::span<const double> values) { return std::exp(mean(logarithms(values))); }

std::vector<double> values_by_allocation(std::span<const double> values, std::span<const std::string> allocations) {
  LOCKSTEP_CHECK(values.size() == allocations.size(), "values={} allocations={}", values.size(), allocations.size());
  std::vector<std::pair<std::string, std::vector<double>>> groups;
  for (size_t i = 0; i < values.size(); ++i) {
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& one) { return !one.first.empty() && one.first == allocations[i]; });
    if (group == groups.end()) group = groups.insert(groups.end(), std::pair(allocations[i], std::vector<double>()));
    group->second.push_back(values[i]);
  }
  std::vector<double> centres;
  for (const auto& group : groups)
    centres.push_back(group.second.size() == 1 ? group.second.front() : centre_of_runs(group.second));
  return centres;
}

PointEstimate combine_runs(std::span<const SeriesSummary> runs, std::span<const std::string> allocations) {
  LOCKSTEP_CHECK(!runs.empty(), "no runs");
  std::vector<double> medians, means;
  PointEstimate point{.num_runs = runs.size()};
  double total_s = 0;
  for (const SeriesSummary& run : runs) {
    medians.push_back(run.median_ms);
    means.push_back(1000 * run.measured_s / static_cast<double>(run.num_measured_steps));
    total_s += run.measured_s;
    point.num_steps += run.num_measured_steps;
  }
  std::vector<double> values = allocations.empty() ? medians : values_by_allocation(medians, allocations);
  const bool is_one_job = values.size() == 1 && runs.size() > 1;
  if (is_one_job) values = medians;
  point.mean_ms = 1000 * total_s / static_cast<double>(point.num_steps);
  if (runs.size() >= 3) {
    std::sort(means.begin(), means.end());
    point.olympic_mean_ms = mean(std::span(means).subspan(1, means.size() - 2));
  }
  note_runs(runs, values.size(), point);
  if (is_one_job) point.notes.push_back("all runs shared one job: the interval holds inside it, not for other jobs");
  set_estimate(runs, values, values.size() < runs.size() ? "values of jobs" : "run medians", point);
  return point;
}

Comparison compare_samples(std::span<const double> a, std::span<const double> b, bool is_paired, double least_log_half,
                           SampleKind kind) {
  LOCKSTEP_CHECK(!a.empty() && !b.empty() && (!is_paired || a.size() == b.size()), "count_a={} count_b={}", a.size(),
                 b.size());
  const std::vector<double> log_a = logarithms(a), log_b = logarithms(b);
  const bool is_median = kind == SampleKind::kSteps && std::min(a.size(), b.size()) >= kMinIntervalValues;
  const LogEstimate left = estimate_logs(log_a, is_median), right = estimate_logs(log_b, is_median);
  Comparison comparison{.ratio = std::exp(left.centre - right.centre)};
  std::optional<Interval> interval;
  if (is_paired) {
    std::vector<double> gaps;
    for (size_t i = 0; i < log_a.size(); ++i) gaps.push_back(log_a[i] - log_b[i]);
    const LogEstimate gap = estimate_logs(gaps, is_median);
    comparison.ratio = std::exp(gap.centre);
    interval = gap.interval;
  } else {
    const bool is_few = std::max(a.size(), b.size()) < kMinIntervalValues;
    if (left.interval && right.interval)
      interval = is_few ? welch_interval(left, a.size(), right, b.size()) : difference_interval(left, right);
    else if (is_few && std::max(a.size(), b.size()) >= 2)
      interval = pooled_interval(left, a.size(), right, b.size());
    comparison.rank_p = mann_whitney_p(a, b, left.time_median, right.time_median);
  }
  if (const double gap = std::log(comparison.ratio);
      interval && std::min(gap - interval->low, interval->high - gap) < least_log_half) {
    interval->low = std::min(interval->low, gap - least_log_half);
    interval->high = std::max(interval->high, gap + least_log_half);
    interval->method += ", widened to the printed digit";
  }
  if (interval) comparison.interval = Interval{std::exp(interval->low), std::exp(interval->high), interval->method};
  return comparison;
}

}  // namespace lockstep::stats
