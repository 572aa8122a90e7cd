// Charts over sizes.
#include "analysis/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "analysis/cells.h"
#include "analysis/work_time_text.h"
#include "stats/statistics.h"

namespace lockstep::analysis {
namespace {
constexpr size_t kMaxCurvesPerChart = 6;

using Curves = std::vector<const Curve*>;
using Value = std::function<Estimate(const Point&)>;

/// Curves with a base and two sizes or more, in groups that share axis and rate unit.
std::vector<Curves> chart_groups(const std::vector<Curve>& curves) {
  std::map<std::pair<bool, std::string>, Curves> by_axis;
  for (const Curve& curve : curves)
    if (curve.points.size() > 1) by_axis[{curve.is_by_devices, rate_unit(curve.points.front())}].push_back(&curve);
  std::vector<Curves> groups;
  for (const auto& [key, members] : by_axis)
    for (size_t begin = 0; begin < members.size(); begin += kMaxCurvesPerChart)
      groups.emplace_back(
          members.begin() + static_cast<ptrdiff_t>(begin),
          members.begin() + static_cast<ptrdiff_t>(std::min(begin + kMaxCurvesPerChart, members.size())));
  return groups;
}

/// Sizes as ticks; under the nodes stand the devices, where every curve has the same number of them.
draw::Axis size_axis(const Curves& curves) {
  std::map<int64_t, std::set<int64_t>> devices;
  for (const Curve* curve : curves)
    for (const Point& point : curve->points) devices[point.size].insert(point.devices);
  draw::Axis axis{.title = unit_name(*curves.front()) + "s", .scale = draw::Scale::kLog2};
  bool is_known = !curves.front()->is_by_devices;
  for (const auto& [size, counts] : devices) {
    axis.ticks.push_back(static_cast<double>(size));
    axis.tick_notes.push_back(std::to_string(*counts.begin()));
    is_known = is_known && counts.size() == 1 && *counts.begin() > 0;
  }
  if (is_known)
    axis.title = fmt::format("nodes (below: {}s)", device_word(*curves.front()));
  else
    axis.tick_notes.clear();
  return axis;
}

/// Points that have the value, with bars where any has a range.
draw::Series series_of(const Curve& curve, const Value& value) {
  draw::Series series{.name = curve.name};
  bool has_range = false;
  for (const Point& point : curve.points) {
    const Estimate estimate = value(point);
    if (!std::isfinite(estimate.value)) continue;
    series.x.push_back(static_cast<double>(point.size));
    series.y.push_back(estimate.value);
    series.low.push_back(estimate.has_range ? estimate.low : NAN);
    series.high.push_back(estimate.has_range ? estimate.high : NAN);
    has_range |= estimate.has_range;
  }
  if (!has_range) series.low.clear(), series.high.clear();
  return series;
}

Estimate times(const Estimate& estimate, double factor) { return proportional(factor * estimate.value, estimate); }

/// What the rates of a group's curves come from.
const char* rates_of(const Curves& curves) {
  const auto count = static_cast<size_t>(
      std::count_if(curves.begin(), curves.end(), [](const Curve* curve) { return is_of_table(*curve); }));
  return count == curves.size() ? "the table" : count == 0 ? "the median step" : "the median step or the table";
}

/// What is drawn in one of several charts of a kind: its only curve, else unit and sizes.
std::string group_name(const Curves& group) {
  if (group.size() == 1) return group.front()->name;
  return fmt::format("{} over {}", rate_unit(group.front()->points.front()), unit_name(*group.front()) + "s");
}

/// Titles of several charts of a kind tell what is in each; where that is the same in two, they are counted.
void name_groups(const std::vector<std::string>& names, std::vector<draw::Chart>& charts) {
  std::map<std::string, size_t> seen;
  for (size_t i = 0; i < charts.size(); ++i) {
    const auto count = std::count(names.begin(), names.end(), names[i]);
    charts[i].title += ": " + names[i] + (count > 1 ? fmt::format(" ({} of {})", ++seen[names[i]], count) : "");
  }
}

draw::Series reference_line(std::string name, const draw::Axis& axis, const std::function<double(double)>& y) {
  draw::Series line{.name = std::move(name), .mark = draw::Mark::kLine, .is_reference = true};
  for (const double x : axis.ticks) {
    line.x.push_back(x);
    line.y.push_back(y(x));
  }
  return line;
}

std::string percent_text(double share) { return fmt::format("{:.1f} %", 100 * share); }

/// "ViT-B-32 keeps 87.3 % at 128 nodes."
std::string efficiency_summary(const Curves& curves) {
  std::string text;
  for (const Curve* curve : curves) {
    const Point& last = curve->points.back();
    if (!std::isfinite(last.efficiency.value)) continue;
    text += fmt::format("{}{}: {} at {}.", text.empty() ? "" : " ", curve->name, percent_text(last.efficiency.value),
                        size_text(*curve, last.size));
  }
  return text;
}

/// Median of the serial fractions after Karp and Flatt; nothing where fewer than two sizes tell one or where it is no
/// share of the work.
std::optional<double> serial_fraction_of(const Curve& curve) {
  constexpr size_t kLeastSizes = 2;
  std::vector<double> fractions;
  for (const Point& point : curve.points)
    if (std::isfinite(point.karp_flatt)) fractions.push_back(point.karp_flatt);
  if (fractions.size() < kLeastSizes) return std::nullopt;
  const double middle = stats::median(fractions);
  return middle > 0 && middle < 1 ? std::optional(middle) : std::nullopt;
}

/// What a constant serial fraction would make of the efficiency: above it at small and below it at large sizes, the
/// lost part grows with the size.
void add_serial_line(const Curve& curve, draw::Chart& chart) {
  const auto fraction = serial_fraction_of(curve);
  if (!fraction || !curve.base) return;
  const auto base = static_cast<double>(curve.points[*curve.base].size);
  chart.series.push_back(reference_line(fmt::format("{} % serial part", figure_text(100 * *fraction, 2)), chart.x,
                                        [&](double size) { return 100 / (1 + *fraction * (size / base - 1)); }));
  chart.caption += fmt::format(
      "The line '{} % serial part' is what a constant serial fraction (Karp and Flatt, median of the sizes) would "
      "give. ",
      figure_text(100 * *fraction, 2));
}

void mark_knee(const Curve& curve, draw::Series& series, draw::Chart& chart) {
  const auto knee = knee_of(curve);
  if (!knee) return;
  series.labels.assign(series.x.size(), "");
  for (size_t i = 0; i < series.x.size(); ++i)
    if (series.x[i] == static_cast<double>(curve.points[*knee].size)) series.labels[i] = "knee";
  chart.caption += fmt::format(
      "{}: the curve bends most at {} (knee: farthest above what one constant serial fraction would draw to the last "
      "size). ",
      curve.name, size_text(curve, curve.points[*knee].size));
}

void add_efficiency(const Curve& curve, draw::Chart& chart) {
  draw::Series series = series_of(curve, [](const Point& point) { return times(point.efficiency, 100); });
  mark_knee(curve, series, chart);
  chart.series.push_back(std::move(series));
}
}  // namespace

std::vector<draw::Chart> charts_over_sizes(const std::vector<Curve>& curves, const char* id,
                                           const std::function<void(const Curves&, draw::Chart&)>& fill) {
  std::vector<draw::Chart> charts;
  std::vector<std::string> names;
  const std::vector<Curves> groups = chart_groups(curves);
  for (const Curves& group : groups) {
    draw::Chart chart;
    chart.id = charts.empty() ? id : fmt::format("{}-{}", id, charts.size() + 1);
    chart.x = size_axis(group);
    fill(group, chart);
    std::erase_if(chart.series, [](const draw::Series& series) { return series.x.empty(); });  // no name without a line
    const bool has_points = std::any_of(chart.series.begin(), chart.series.end(),
                                        [](const draw::Series& series) { return !series.is_reference; });
    if (!has_points) continue;
    if (std::any_of(chart.series.begin(), chart.series.end(),
                    [](const draw::Series& series) { return !series.low.empty(); }))
      chart.caption += std::string(chart.caption.empty() || chart.caption.back() == ' ' ? "" : " ") +
                       "Bars are 95 % intervals where steps and repeats allow one.";
    names.push_back(group_name(group));
    charts.push_back(std::move(chart));
  }
  if (groups.size() > 1) name_groups(names, charts);
  return charts;
}

/// Measured against 1 / (1 + f (p - 1)) through the first and the last size: the line from first to last is no measure,
/// since a constant serial fraction f bows above it by up to 0.56 of the loss over large ranges.
std::optional<size_t> knee_of(const Curve& curve) {
  constexpr size_t kLeastSizes = 4;
  constexpr double kLeastLoss = 0.05, kLeastBend = 0.02, kLeastBendOfLoss = 0.15;
  std::vector<size_t> known;
  for (size_t i = 0; i < curve.points.size(); ++i)
    if (std::isfinite(curve.points[i].efficiency.value)) known.push_back(i);
  if (known.size() < kLeastSizes) return std::nullopt;
  const Point &first = curve.points[known.front()], &last = curve.points[known.back()];
  const double loss = first.efficiency.value - last.efficiency.value;
  if (loss < kLeastLoss || last.size <= first.size || last.efficiency.value <= 0) return std::nullopt;
  const auto growth = [&](const Point& point) {
    return static_cast<double>(point.size) / static_cast<double>(first.size) - 1;
  };
  const double fraction = (first.efficiency.value / last.efficiency.value - 1) / growth(last);
  std::optional<size_t> knee;
  double most = std::max(kLeastBend, kLeastBendOfLoss * loss);
  for (const size_t i : known) {
    const Point& point = curve.points[i];
    const double bend = point.efficiency.value - first.efficiency.value / (1 + fraction * growth(point));
    const double noise = point.efficiency.has_range ? point.efficiency.value - point.efficiency.low : 0;
    if (bend > std::max(most, noise)) most = bend, knee = i;
  }
  return knee;
}

std::vector<draw::Chart> efficiency_charts(const std::vector<Curve>& curves, const AnalysisOptions& options) {
  return charts_over_sizes(curves, "efficiency", [&options](const Curves& group, draw::Chart& chart) {
    chart.title = "Scaling efficiency";
    chart.summary = efficiency_summary(group);
    chart.caption = is_of_times(*group.front()) ? efficiency_of_times_text(group) + " "
                                                : fmt::format("Rate per {} over that of the base, at the rates of {}. ",
                                                              unit_name(*group.front()), rates_of(group));
    for (const Curve* curve : group)
      chart.caption += fmt::format("{}: {}{}. ", curve->name, scaling_name(curve->kind),
                                   curve->shares_cores ? "; the ranks shared the cores of one machine" : "");
    chart.y = {.title = "efficiency (%)", .min = 0};
    for (const Curve* curve : group) add_efficiency(*curve, chart);
    chart.series.push_back(reference_line("ideal", chart.x, [](double) { return 100.0; }));
    const double target = 100 * options.efficiency_target;
    chart.series.push_back(
        reference_line(fmt::format("target {:.0f} %", target), chart.x, [target](double) { return target; }));
    if (group.size() == 1) add_serial_line(*group.front(), chart);
  });
}

std::vector<draw::Chart> throughput_charts(const std::vector<Curve>& curves) {
  return charts_over_sizes(curves, "throughput", [](const Curves& group, draw::Chart& chart) {
    if (is_of_times(*group.front())) return;
    const std::string unit = rate_unit(group.front()->points.front());
    chart.title = "Throughput";
    chart.summary = fmt::format(
        "Rate against the number of {}; the number at each marker is the efficiency, since a double logarithmic plot "
        "hides losses.",
        unit_name(*group.front()) + "s");
    chart.caption = "Grey lines: ideal from each base. Numbers: efficiency in %.";
    chart.y = {.title = unit, .scale = draw::Scale::kLog10};
    for (const Curve* curve : group) {
      draw::Series series = series_of(*curve, [](const Point& point) { return point.samples_per_s; });
      for (const Point& point : curve->points)
        if (std::isfinite(point.samples_per_s.value))
          series.labels.push_back(
              std::isfinite(point.efficiency.value) ? fmt::format("{:.0f}", 100 * point.efficiency.value) : "");
      chart.series.push_back(std::move(series));
      if (!curve->base) continue;
      const Point& base = curve->points[*curve->base];
      draw::Series ideal{.name = "ideal", .mark = draw::Mark::kLine, .is_reference = true};
      for (const Point& point : curve->points) {
        if (!std::isfinite(base.samples_per_s.value)) continue;
        ideal.x.push_back(static_cast<double>(point.size));
        ideal.y.push_back(base.samples_per_s.value * static_cast<double>(point.size) / static_cast<double>(base.size));
      }
      if (!ideal.x.empty()) chart.series.push_back(std::move(ideal));
    }
  });
}

std::vector<draw::Chart> utilisation_charts(const std::vector<Curve>& curves) {
  const auto has_mfu = [](const Curve* curve) {
    return std::all_of(curve->points.begin(), curve->points.end(),
                       [](const Point& point) { return std::isfinite(point.mfu); });
  };
  std::vector<draw::Chart> charts = charts_over_sizes(curves, "mfu", [&](const Curves& group, draw::Chart& chart) {
    chart.title = "Model FLOPs utilisation";
    chart.y = {.title = "MFU (%)", .min = 0};
    chart.caption = "MFU = model FLOPs per step / (seconds x devices x peak), training = 3 x forward.";
    for (const Curve* curve : group) {
      if (!has_mfu(curve)) continue;
      const Point& first = curve->points.front();
      chart.series.push_back(
          series_of(*curve, [](const Point& point) { return proportional(100 * point.mfu, point.samples_per_s); }));
      chart.caption += fmt::format(" {}: {:g} GFLOP forward per sample, peak {}.", curve->name,
                                   *first.setup.forward_gflops_per_sample, first.peak_text);
      chart.summary +=
          fmt::format("{}: {} at {}, {} at {}. ", curve->name, percent_text(first.mfu), size_text(*curve, first.size),
                      percent_text(curve->points.back().mfu), size_text(*curve, curve->points.back().size));
    }
  });
  const auto rates = charts_over_sizes(curves, "per-device", [](const Curves& group, draw::Chart& chart) {
    if (is_of_times(*group.front())) return;
    chart.title = "Rate per device";
    chart.summary = "A flat line is ideal.";
    chart.y = {.title = rate_unit(group.front()->points.front()) + " per device", .min = 0};
    for (const Curve* curve : group)
      chart.series.push_back(series_of(*curve, [](const Point& point) {
        return times(point.samples_per_s, point.devices > 0 ? 1 / static_cast<double>(point.devices) : NAN);
      }));
  });
  charts.insert(charts.end(), rates.begin(), rates.end());
  return charts;
}

std::vector<draw::Chart> speedup_charts(const std::vector<Curve>& curves) {
  return charts_over_sizes(curves, "speedup", [](const Curves& group, draw::Chart& chart) {
    chart.title = "Speed-up";
    chart.y = {.title = "speed-up", .scale = draw::Scale::kLog2};
    for (const Curve* curve : group) {
      if (!curve->base) continue;
      const Point& base = curve->points[*curve->base];
      chart.series.push_back(series_of(*curve, speedup_estimate));
      if (!std::isfinite(base.samples_per_s.value)) continue;
      chart.caption += fmt::format(
          "{}: base {} with {}. ", curve->name, size_text(*curve, base.size),
          base.work_time ? work_time_text(base) : figure_text(base.samples_per_s.value) + " " + rate_unit(base));
      chart.summary += fmt::format("{}: {:.2f} times the base at {}. ", curve->name, curve->points.back().speedup,
                                   size_text(*curve, curve->points.back().size));
    }
    std::set<int64_t> bases;
    for (const Curve* curve : group)
      if (curve->base) bases.insert(curve->points[*curve->base].size);
    for (const int64_t base : bases) {
      const std::string name = bases.size() == 1 ? "ideal" : fmt::format("ideal from {}", base);
      chart.series.push_back(
          reference_line(name, chart.x, [base](double size) { return size / static_cast<double>(base); }));
    }
  });
}

std::vector<draw::Chart> time_charts(const std::vector<Curve>& curves, const AnalysisOptions& options) {
  const auto add_work = [&](const Curves& group, const char* title, draw::Chart& chart) {
    const Point& point = group.front()->points.front();
    chart.title = fmt::format("{} for {}", title, work_text(point, options));
    chart.caption = fmt::format("At the rate of {}.{}", rates_of(group), work_note(point, options));
  };
  std::vector<draw::Chart> charts = charts_over_sizes(curves, "time", [&](const Curves& group, draw::Chart& chart) {
    add_work(group, "Time to solution", chart);
    chart.summary = "Days that this work takes.";
    chart.y = {.title = "days", .scale = draw::Scale::kLog10};
    for (const Curve* curve : group)
      chart.series.push_back(
          series_of(*curve, [](const Point& point) { return inverse(point.budget_days, point.samples_per_s); }));
  });
  const auto costs = charts_over_sizes(curves, "node-hours", [&](const Curves& group, draw::Chart& chart) {
    add_work(group, "Node-hours", chart);
    chart.summary = group.front()->is_by_devices
                        ? "Hours of the one node that holds all devices: the lower, the better they fill it."
                        : "A flat line is ideal: more nodes then cost nothing extra.";
    const Point& first = group.front()->points.front();
    if (const auto unit = billed_unit(first); unit && first.nodes > 0)
      chart.caption +=
          fmt::format(" An hour of {} is {:g} {}.", size_text(*group.front(), first.size), unit->count, unit->name);
    chart.y = {.title = "node-hours", .min = 0};
    for (const Curve* curve : group)
      chart.series.push_back(
          series_of(*curve, [](const Point& point) { return inverse(point.budget_node_hours, point.samples_per_s); }));
  });
  charts.insert(charts.end(), costs.begin(), costs.end());
  return charts;
}

}  // namespace lockstep::analysis
