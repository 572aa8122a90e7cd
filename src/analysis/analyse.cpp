#include "analysis/analyse.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>

#include "analysis/cells.h"
#include "analysis/checks.h"
#include "analysis/group.h"
#include "analysis/losses.h"
#include "analysis/missing.h"
#include "analysis/peak.h"
#include "stats/statistics.h"

namespace lockstep::analysis {
namespace {
constexpr double kSecondsPerDay = 86400;

/// Repeats with a 95 % interval whose ends lie further than this from the value, on logarithms, get none: two that
/// differ by 9 % already have one of 60 to 160 % of the value. Of a single run the upper end may be 1.65 times the
/// lower.
constexpr double kMaxLogHalf = 0.5, kMaxLogHalfOfRun = 0.25;

/// Takes an interval that says nothing away, and puts what it says into words.
void drop_empty_interval(Point& point, std::span<const stats::SeriesSummary> series) {
  const auto& interval = point.estimate.median_interval;
  const bool is_single = series.size() == 1;
  const double log_half = interval && interval->low > 0 ? std::log(interval->high / interval->low) / 2 : 0;
  if (log_half <= (is_single ? kMaxLogHalfOfRun : kMaxLogHalf)) return;
  if (is_single) {
    point.no_interval = fmt::format(
        "the steps of the only run vary so much that their median may be anything from {} to {} ms: no "
        "interval",
        figure_text(interval->low, 3), figure_text(interval->high, 3));
    point.estimate.median_interval.reset();
    return;
  }
  const auto [fastest, slowest] = std::minmax_element(
      series.begin(), series.end(), [](const auto& a, const auto& b) { return a.median_ms < b.median_ms; });
  point.no_interval = fmt::format("{} repeats that differ by {:.0f} %: no interval", series.size(),
                                  100 * (slowest->median_ms / fastest->median_ms - 1));
  point.estimate.median_interval.reset();
}

/// Mean over runs that know the value, weighted with their measured steps.
template <typename Get> double mean_over_runs(const Point& point, const std::vector<RunSummary>& runs, Get get) {
  double sum = 0, weight = 0;
  for (const size_t index : point.runs) {
    const double value = get(runs[index]);
    if (!std::isfinite(value)) continue;
    sum += value * static_cast<double>(runs[index].num_measured_steps);
    weight += static_cast<double>(runs[index].num_measured_steps);
  }
  return weight > 0 ? sum / weight : record::kUnknown;
}

/// Steps of all runs together: a run weighs as much as it has steps, whether its rows are single ones
/// or means over an interval.
void fill_distribution(Point& point, const std::vector<RunSummary>& runs) {
  double num_values = 0, least_per_row = std::numeric_limits<double>::infinity();
  for (const size_t index : point.runs) least_per_row = std::min(least_per_row, runs[index].steps_per_row);
  std::vector<stats::WeightedValue>& pooled = point.distribution;
  for (const size_t index : point.runs)
    for (const stats::WeightedValue& step : runs[index].distribution) {
      num_values += step.weight;
      pooled.push_back({.value = step.value, .weight = step.weight * runs[index].steps_per_row / least_per_row});
    }
  std::sort(pooled.begin(), pooled.end(), [](const auto& a, const auto& b) { return a.value < b.value; });
  const auto quantile = [&](double p) {
    return pooled.empty() ? record::kUnknown : stats::weighted_percentile(pooled, p);
  };
  point.p50_ms = quantile(50);
  point.p95_ms = quantile(95);
  point.p99_ms = num_values >= static_cast<double>(stats::kMinP99Values) ? quantile(99) : record::kUnknown;
}

void fill_times(Point& point, const std::vector<RunSummary>& runs) {
  std::vector<stats::SeriesSummary> series;
  std::vector<std::string> allocations;
  for (const size_t index : point.runs) {
    series.push_back(*runs[index].series);
    allocations.push_back(runs[index].allocation);
  }
  for (const size_t index : point.runs) {
    point.num_steps += runs[index].num_measured_steps;
    point.num_window_steps += runs[index].num_window_steps;
    point.steps_per_row = std::max(point.steps_per_row, runs[index].steps_per_row);
  }
  const std::set<std::string> distinct(allocations.begin(), allocations.end());
  if (allocations.size() == 1 || !distinct.contains("")) point.num_allocations = distinct.size();
  point.estimate = stats::combine_runs(series, allocations);
  drop_empty_interval(point, series);
  point.is_of_table = runs[point.runs.front()].format == kTableRow;
  point.work_time = runs[point.runs.front()].work_time;
  for (const size_t index : point.runs) point.has_step_time = point.has_step_time && runs[index].has_step_time;
  if (point.is_of_table) {
    point.num_steps = point.num_window_steps = 0;
    point.p50_ms = point.p95_ms = point.p99_ms = record::kUnknown;
    return;
  }
  fill_distribution(point, runs);
}

/// Ratios within each run, combined over the runs; those without a clock tell nothing of pauses, and one pause or none
/// in a run tells nothing of how many a longer run has.
void fill_ratios(Point& point, const std::vector<RunSummary>& runs) {
  const auto has_pauses = [&](size_t index) { return runs[index].num_pauses >= 2; };
  point.are_pauses_measured = std::any_of(point.runs.begin(), point.runs.end(), has_pauses);
  double slow = 0, pause = 0, num_clocks = 0;
  for (const size_t index : point.runs) {
    const RunSummary& run = runs[index];
    const double mean_ms = 1e3 * run.measured_s / run.measured_samples * run.samples_per_step;
    slow += std::log(mean_ms / run.series->median_ms);
    if (!std::isfinite(run.pause_ratio) || (point.are_pauses_measured && !has_pauses(index))) continue;
    pause += std::log(run.pause_ratio);
    point.num_pauses += run.num_pauses;
    point.are_pauses_doubtful = point.are_pauses_doubtful || run.are_pauses_doubtful;
    ++num_clocks;
  }
  point.slow_ratio = point.is_of_table ? record::kUnknown : std::exp(slow / static_cast<double>(point.runs.size()));
  point.pause_ratio = point.is_of_table || num_clocks == 0 ? record::kUnknown : std::exp(pause / num_clocks);
}

void fill_rates(Point& point, const std::vector<RunSummary>& runs) {
  const auto& work = runs[point.runs.front()];
  point.samples_per_step = work.samples_per_step;
  if (!std::isfinite(point.samples_per_step) && point.setup.global_batch)
    point.samples_per_step = static_cast<double>(*point.setup.global_batch);
  point.tokens_per_step = work.tokens_per_step;
  const auto rate = [&](double ms) { return 1e3 * point.samples_per_step / ms; };
  point.samples_per_s.value = rate(point.estimate.median_ms);
  if (const auto& interval = point.estimate.median_interval;
      interval && interval->low > 0 && std::isfinite(interval->high)) {
    point.samples_per_s.low = rate(interval->high);
    point.samples_per_s.high = rate(interval->low);
    point.samples_per_s.has_range = true;
  }
  double samples = 0, billed_s = 0, mean_samples = 0, mean_s = 0;
  for (const size_t index : point.runs) {
    if (std::isfinite(runs[index].billed_s)) {  // others have no clock
      samples += runs[index].billed_samples;
      billed_s += runs[index].billed_s;
    }
    point.tells_some_steps = point.tells_some_steps || runs[index].tells_some_steps;
    point.is_sample_slower = point.is_sample_slower || runs[index].is_sample_slower;
    mean_samples += runs[index].measured_samples;
    mean_s += runs[index].measured_s;
  }
  point.billed_samples_per_s = billed_s > 0 && !point.is_of_table ? samples / billed_s : record::kUnknown;
  point.mean_samples_per_s = mean_s > 0 && !point.is_of_table ? mean_samples / mean_s : record::kUnknown;
  point.tokens_per_s = 1e3 * point.tokens_per_step / point.estimate.median_ms;
  fill_ratios(point, runs);
}

void fill_flops(Point& point, const std::vector<RunSummary>& runs, const AnalysisOptions& options) {
  point.tflops_per_device = point.mfu = point.mfu_measured = point.peak_tflops = point.logged_mfu = record::kUnknown;
  point.logged_tflops_per_device = 1 / mean_over_runs(point, runs, [](const RunSummary& run) {
                                     return 1 / run.logged_tflops_per_device;
                                   });  // equal work: times add up
  if (point.setup.forward_gflops_per_sample && point.devices > 0)
    point.tflops_per_device = 3 * *point.setup.forward_gflops_per_sample * point.samples_per_s.value /
                              static_cast<double>(point.devices) / 1e3;
  if (!std::isfinite(point.tflops_per_device) && !std::isfinite(point.logged_tflops_per_device)) return;
  if (const auto peak = peak_of(point.setup, options)) {
    point.peak_tflops = peak->tflops;
    point.peak_text = peak->text;
    point.mfu = point.tflops_per_device / peak->tflops;
    point.logged_mfu = point.logged_tflops_per_device / peak->tflops;
  }
  if (const auto peak = measured_peak_of(point.setup, options))
    point.mfu_measured = point.tflops_per_device / peak->tflops;
}

void fill_cost(Point& point, const AnalysisOptions& options) {
  const bool is_tokens = is_token_task(point);
  const double rate = is_tokens ? point.tokens_per_s : point.samples_per_s.value;
  const bool has_clock = !point.work_time || point.work_time->unit_s > 0;
  const double budget = has_clock ? budget_of(point, options) : record::kUnknown;
  const double nodes = point.nodes > 0 ? static_cast<double>(point.nodes) : record::kUnknown;
  point.node_hours_per_sample = nodes / 3600 / point.samples_per_s.value;
  point.budget_days = budget / rate / kSecondsPerDay;
  point.budget_node_hours = point.budget_days * 24 * nodes;
}

void fill_epochs(Point& point, const std::vector<RunSummary>& runs) {
  std::vector<double> total, train, samples;
  for (const size_t index : point.runs)
    for (const EpochTimes& epoch : runs[index].epochs) {
      if (std::isfinite(epoch.total_s)) total.push_back(epoch.total_s);
      train.push_back(epoch.train_s);
      if (std::isfinite(epoch.samples)) samples.push_back(epoch.samples);
    }
  point.epoch_s = total.empty() ? record::kUnknown : stats::median(total);
  point.epoch_train_s = train.empty() ? record::kUnknown : stats::median(train);
  point.epoch_samples = samples.empty() ? record::kUnknown : stats::median(samples);
}

void fill_memory_and_network(Point& point, const std::vector<RunSummary>& runs) {
  std::set<std::string> interfaces;
  for (const size_t index : point.runs) {
    for (const auto& [name, use] : runs[index].network_per_step) interfaces.insert(name);
    point.memory.device_bytes =
        std::max(point.memory.device_bytes, runs[index].memory.device_bytes);  // nothing is less than any number
    point.memory.host_bytes = std::max(point.memory.host_bytes, runs[index].memory.host_bytes);
  }
  for (const std::string& name : interfaces) {
    const auto mean_of = [&](double NetworkUse::*bytes) {
      return mean_over_runs(point, runs, [&](const RunSummary& run) {
        const auto found = run.network_per_step.find(name);
        return found == run.network_per_step.end() ? record::kUnknown : found->second.*bytes;
      });
    };
    point.network_per_step[name] = {.received_bytes = mean_of(&NetworkUse::received_bytes),
                                    .sent_bytes = mean_of(&NetworkUse::sent_bytes)};
  }
}

void fill_parts(Point& point, const std::vector<RunSummary>& runs) {
  point.data_wait_share = mean_over_runs(point, runs, [](const RunSummary& run) { return run.data_wait_share; });
  std::set<std::string> phases;
  for (const size_t index : point.runs)
    for (const auto& [phase, ms] : runs[index].phases_ms) phases.insert(phase);
  for (const std::string& phase : phases)
    point.phases_ms[phase] = mean_over_runs(point, runs, [&](const RunSummary& run) {
      const auto found = run.phases_ms.find(phase);
      return found == run.phases_ms.end() ? record::kUnknown : found->second;
    });
  const auto skew_of = [&](auto get) {
    return mean_over_runs(point, runs,
                          [&](const RunSummary& run) { return run.skew ? get(*run.skew) : record::kUnknown; });
  };
  const double skew_step_ms = skew_of([](const RankSkew& skew) { return skew.step_ms; });
  point.skew_ms = skew_of([](const RankSkew& skew) { return skew.over_mean_ms; });
  point.skew_share = point.skew_ms / skew_step_ms;
  point.straggler_share = skew_of([](const RankSkew& skew) { return skew.over_median_ms; }) / skew_step_ms;
  for (const size_t index : point.runs) {
    const auto& energy = runs[index].energy;
    if (!energy) continue;
    if (!point.energy) point.energy = EnergyUse{.scope = energy->scope};
    point.energy->joules += energy->joules;
    point.energy->samples += energy->samples;
    point.energy->seconds += energy->seconds;
    point.energy->num_hosts = std::max(point.energy->num_hosts, energy->num_hosts);
  }
}

/// Smallest size, or the one asked for.
void choose_base(Curve& curve, const AnalysisOptions& options) {
  if (curve.points.empty() || curve.points.front().size == 0) {
    curve.base_reason = "there is no base: the size of the runs is unknown";
    return;
  }
  if (!options.base_nodes) {
    curve.base = 0;
    curve.base_reason =
        fmt::format("the smallest size with a valid point, {}", size_text(curve, curve.points.front().size));
    return;
  }
  for (size_t i = 0; i < curve.points.size(); ++i)
    if (curve.points[i].size == *options.base_nodes) {
      curve.base = i;
      curve.base_reason = fmt::format("{}, as asked for", size_text(curve, *options.base_nodes));
      return;
    }
  curve.base_reason = fmt::format(
      "the base asked for, {}, has no valid point here: efficiency and speed-up cannot be told, rates and times can",
      size_text(curve, *options.base_nodes));
}

/// Efficiency with its range: relative half widths of point and base added in quadrature (on the
/// log scale, both sides apart).
Estimate efficiency_of(const Point& point, const Point& base) {
  const double per_size = point.samples_per_s.value / static_cast<double>(point.size);
  const double base_per_size = base.samples_per_s.value / static_cast<double>(base.size);
  Estimate efficiency{.value = per_size / base_per_size};
  if (&point == &base || !point.samples_per_s.has_range || !base.samples_per_s.has_range) return efficiency;
  const auto spread = [](double a, double b) { return std::log(a / b); };
  const Estimate &x = point.samples_per_s, &x0 = base.samples_per_s;
  efficiency.low = efficiency.value * std::exp(-std::hypot(spread(x.value, x.low), spread(x0.high, x0.value)));
  efficiency.high = efficiency.value * std::exp(std::hypot(spread(x.high, x.value), spread(x0.value, x0.low)));
  efficiency.has_range = true;
  return efficiency;
}

void fill_epoch_efficiency(Point& point, const Point& base) {
  point.eff_epoch = point.eff_train = record::kUnknown;
  if (!std::isfinite(point.epoch_train_s) || !std::isfinite(base.epoch_train_s)) {
    point.eff_missing["eff_epoch"] = "needs two whole epochs after the first at this size and at the base, with times";
  } else if (std::abs(point.epoch_samples / base.epoch_samples - 1) > 0.05) {
    point.eff_missing["eff_epoch"] =
        fmt::format("epochs differ: {:.0f} samples here, {:.0f} at the base", point.epoch_samples, base.epoch_samples);
  } else {
    const double ratio = static_cast<double>(base.size) / static_cast<double>(point.size);
    point.eff_epoch = base.epoch_s / point.epoch_s * ratio;
    point.eff_train = base.epoch_train_s / point.epoch_train_s * ratio;
    if (!std::isfinite(point.eff_epoch))
      point.eff_missing["eff_epoch"] = "needs times of day, which tell what lies between epochs, here and at the base";
    return;
  }
  point.eff_missing["eff_train"] = point.eff_missing["eff_epoch"];
}

void fill_point_relative(Point& point, const Point& base) {
  const double p = static_cast<double>(point.size) / static_cast<double>(base.size);
  point.speedup = point.samples_per_s.value / base.samples_per_s.value;
  point.efficiency = efficiency_of(point, base);
  point.eff_tput = point.mean_samples_per_s / base.mean_samples_per_s / p;
  point.eff_batch = record::kUnknown;
  if (point.setup.samples_per_device && point.setup.samples_per_device == base.setup.samples_per_device)
    point.eff_batch = base.estimate.median_ms / point.estimate.median_ms;
  else
    point.eff_missing["eff_batch"] = "needs the same local batch as the base";
  fill_epoch_efficiency(point, base);
  point.karp_flatt = p > 1 ? (1 / point.speedup - 1 / p) / (1 - 1 / p) : record::kUnknown;
}
void fill_point(Point& point, const std::vector<RunSummary>& runs, const AnalysisOptions& options) {
  fill_times(point, runs);
  fill_rates(point, runs);
  fill_flops(point, runs, options);
  fill_cost(point, options);
  fill_epochs(point, runs);
  fill_parts(point, runs);
  fill_memory_and_network(point, runs);
}

void fill_relative(Curve& curve, const AnalysisOptions& options) {
  choose_base(curve, options);
  for (Point& point : curve.points) {
    if (curve.base) {
      fill_point_relative(point, curve.points[*curve.base]);
      continue;
    }
    point.speedup = point.efficiency.value = point.karp_flatt = record::kUnknown;
    point.eff_epoch = point.eff_train = point.eff_batch = point.eff_tput = record::kUnknown;
  }
}
}  // namespace

Analysis analyse(std::vector<RunSummary> runs, const AnalysisOptions& options) {
  Analysis analysis{.options = options, .runs = std::move(runs)};
  analysis.curves = group_runs(analysis.runs, analysis.left_out);
  for (Curve& curve : analysis.curves) {
    for (Point& point : curve.points) fill_point(point, analysis.runs, options);
    fill_relative(curve, options);
    fill_losses(curve, analysis.runs);
    std::vector<Flag> of_curve = check_curve(curve, analysis.runs);
    for (const Point& point : curve.points)
      analysis.flags.insert(analysis.flags.end(), point.flags.begin(), point.flags.end());
    analysis.flags.insert(analysis.flags.end(), of_curve.begin(), of_curve.end());
  }
  for (const RunSummary& run : analysis.runs)
    if (run.setup.is_profiled)
      analysis.flags.push_back({"M16", "profiler-on", run.name, "a profiler ran; the run is in no measured point",
                                "run it again without the profiler to measure it"});
  std::stable_sort(analysis.flags.begin(), analysis.flags.end(),
                   [](const Flag& a, const Flag& b) { return a.code < b.code; });
  analysis.missing = missing_facts_of(analysis);
  return analysis;
}

}  // namespace lockstep::analysis
