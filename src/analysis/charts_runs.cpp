// Charts of one curve's steps, and of losses.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "analysis/cells.h"
#include "analysis/charts_runs.h"
#include "analysis/collectives.h"
#include "stats/statistics.h"

namespace lockstep::analysis {
namespace {
constexpr size_t kMaxCdfPerChart = 6, kMaxTraces = 4, kMaxLossSeries = 12, kMaxLossWindows = 300;
constexpr double kMinCdfRise = 0.004;  // at most 250 points a line

draw::Series cdf_series(const Curve& curve, const Point& point) {
  draw::Series series{.name = size_text(curve, point.size), .mark = draw::Mark::kStep};
  double total = 0, seen = 0, drawn = 0;
  for (const stats::WeightedValue& step : point.distribution) total += step.weight;
  for (size_t i = 0; i < point.distribution.size(); ++i) {
    const auto& [value, weight] = point.distribution[i];
    seen += weight;
    const bool is_last = i + 1 == point.distribution.size();
    if (!is_last && point.distribution[i + 1].value == value)
      continue;  // equal steps share the highest of their shares
    if (!is_last && !series.x.empty() && seen - drawn < kMinCdfRise * total) continue;
    series.x.push_back(value / point.p50_ms);
    series.y.push_back(seen / total);
    drawn = seen;
  }
  return series;
}

double weight_where(const std::vector<stats::WeightedValue>& values, const std::function<bool(double)>& matches) {
  double sum = 0;
  for (const stats::WeightedValue& one : values) sum += matches(one.value) ? one.weight : 0;
  return sum;
}

/// Between which step times, over the median, a distribution is worth drawing: all but single values far from the
/// others. Where more than a twentieth lies out there it is no outlier but a second mode, and is drawn up to the
/// percentile 99.5 (0.5 on the other side).
struct CdfRange {
  double low = 1, high = 1;
};

CdfRange cdf_range(const Point& point) {
  constexpr double kTailPercentile = 0.5, kMaxOutliers = 0.05, kFence = 5 * 1.4826, kLeastFence = 0.01;
  std::vector<stats::WeightedValue> deviations;
  for (const auto& [value, weight] : point.distribution) deviations.push_back({std::abs(value - point.p50_ms), weight});
  std::sort(deviations.begin(), deviations.end(), [](const auto& a, const auto& b) { return a.value < b.value; });
  const double fence = std::max(kFence * stats::weighted_percentile(deviations, 50), kLeastFence * point.p50_ms);
  const double total = weight_where(point.distribution, [](double) { return true; });
  double bottom = point.p50_ms - fence, top = point.p50_ms + fence;
  if (weight_where(point.distribution, [&](double value) { return value < bottom; }) > kMaxOutliers * total)
    bottom = stats::weighted_percentile(point.distribution, kTailPercentile);
  if (weight_where(point.distribution, [&](double value) { return value > top; }) > kMaxOutliers * total)
    top = stats::weighted_percentile(point.distribution, 100 - kTailPercentile);
  // Up to the value that is drawn, not to the fence beyond it.
  double last = point.p50_ms, first = point.p50_ms;
  for (const auto& [value, weight] : point.distribution) {
    if (value <= top) last = std::max(last, value);
    if (value >= bottom) first = std::min(first, value);
  }
  return {first / point.p50_ms, last / point.p50_ms};
}

/// "step" or what a row of the log is the mean of.
bool tells_means(const Point& point) { return point.steps_per_row > 1; }
std::string means_text(const Point& point) { return fmt::format("means over {:.0f} steps", point.steps_per_row); }

/// What the x axis leaves out, and how far it goes: "8 nodes: 1 of 38 values lies right of the axis, up to 2.30 times
/// the median. "
std::string beyond_text(const Curve& curve, const Point& point, double low, double high) {
  std::string text;
  const double total = weight_where(point.distribution, [](double) { return true; });
  const auto add = [&](double count, const char* side, double ratio, const char* how_far) {
    if (count > 0)
      text +=
          fmt::format("{}: {:.0f} of {:.0f} values {} {} of the axis, {} {:.2f} times the median. ",
                      size_text(curve, point.size), count, total, count < 1.5 ? "lies" : "lie", side, how_far, ratio);
  };
  add(weight_where(point.distribution, [&](double value) { return value > high * point.p50_ms; }), "right",
      point.distribution.back().value / point.p50_ms, "up to");
  add(weight_where(point.distribution, [&](double value) { return value < low * point.p50_ms; }), "left",
      point.distribution.front().value / point.p50_ms, "down to");
  return text;
}

const Point* point_of_run(const Analysis& analysis, size_t index, const Curve*& curve) {
  for (const Curve& one : analysis.curves)
    for (const Point& point : one.points)
      if (std::find(point.runs.begin(), point.runs.end(), index) != point.runs.end()) {
        curve = &one;
        return &point;
      }
  return nullptr;
}
}  // namespace

std::vector<draw::Chart> cdf_charts(const Curve& curve, const std::vector<RunSummary>& runs) {
  std::vector<draw::Chart> charts;
  bool has_steps = false;
  for (const Point& point : curve.points)
    for (const size_t index : point.runs) has_steps |= runs[index].series->num_measured_steps >= 10;
  if (!has_steps) return charts;
  const size_t num_charts = (curve.points.size() + kMaxCdfPerChart - 1) / kMaxCdfPerChart;
  for (size_t i = 0; i < num_charts; ++i) {
    draw::Chart chart{.id = fmt::format("cdf-{}{}", curve.id, i == 0 ? "" : fmt::format("-{}", i + 1)),
                      .title = fmt::format("Distribution of step times: {}{}", curve.name,
                                           num_charts > 1 ? fmt::format(" ({} of {})", i + 1, num_charts) : "")};
    std::vector<const Point*> drawn;
    for (size_t p = i * kMaxCdfPerChart; p < std::min((i + 1) * kMaxCdfPerChart, curve.points.size()); ++p)
      if (curve.points[p].distribution.size() > 1) drawn.push_back(&curve.points[p]);
    if (drawn.empty()) continue;
    const auto of_means =
        std::find_if(drawn.begin(), drawn.end(), [](const Point* point) { return tells_means(*point); });
    const bool has_means = of_means != drawn.end();
    if (has_means) chart.title += fmt::format(" ({})", means_text(**of_means));
    chart.is_sequential = true;
    chart.x.title =
        fmt::format("{} / median of its size",
                    has_means ? fmt::format("mean of {:.0f} steps", (*of_means)->steps_per_row) : "step time");
    chart.y = {.title = fmt::format("share of {} that took at most this long", has_means ? "such means" : "steps"),
               .min = 0,
               .max = 1};
    CdfRange range;
    for (const Point* point : drawn) {
      const CdfRange one = cdf_range(*point);
      range = {std::min(range.low, one.low), std::max(range.high, one.high)};
    }
    constexpr double kMargin = 0.05, kLeastMargin = 0.001;
    const double margin = std::max(kMargin * (range.high - range.low), kLeastMargin);
    chart.x.min = std::max(0.0, range.low - margin), chart.x.max = range.high + margin;
    chart.caption = "A steep rise and a flat top is a quiet machine; where a curve bends, slow steps begin. ";
    if (has_means) chart.caption += "The log tells means, which hide single slow steps. ";
    for (const Point* point : drawn) {
      chart.series.push_back(cdf_series(curve, *point));
      chart.caption += beyond_text(curve, *point, *chart.x.min, *chart.x.max);
      chart.summary += fmt::format(
          "{}: p95 is {:.3f}{} times the median. ", size_text(curve, point->size), point->p95_ms / point->p50_ms,
          std::isfinite(point->p99_ms) ? fmt::format(" and p99 {:.3f}", point->p99_ms / point->p50_ms) : "");
    }
    charts.push_back(std::move(chart));
  }
  return charts;
}

std::vector<draw::Chart> trace_charts(const Curve& curve, const std::vector<RunSummary>& runs) {
  std::vector<size_t> shown;  // smallest and largest size first, then those between
  if (!curve.points.empty()) shown.push_back(0);
  for (size_t i = curve.points.size(); i-- > 1;) shown.push_back(i);
  std::erase_if(shown, [&](size_t place) { return runs[curve.points[place].runs.front()].trace_ms.size() < 10; });
  shown.resize(std::min(shown.size(), kMaxTraces));
  std::sort(shown.begin(), shown.end());
  std::vector<draw::Chart> charts;
  for (const size_t place : shown) {
    const Point& point = curve.points[place];
    const RunSummary& run = runs[point.runs.front()];
    draw::Chart chart{.id = fmt::format("trace-{}-{}", curve.id, point.size),
                      .title = fmt::format("Step times of {}, {}{}", run.name, size_text(curve, point.size),
                                           tells_means(point) ? fmt::format(" ({})", means_text(point)) : "")};
    const stats::SeriesSummary& series = *run.series;
    chart.summary = fmt::format("{} rows of warm-up, then a median of {} ms; {} outliers.", series.num_warmup_steps,
                                figure_text(series.median_ms), series.outliers.size());
    chart.caption = series.num_steps > run.trace_ms.size()
                        ? "Thinned: medians of short blocks, and every block's slowest outlier."
                        : "";
    chart.x.title = "step";
    chart.y = {.title = tells_means(point) ? fmt::format("step time, mean of {:.0f} (ms)", point.steps_per_row)
                                           : "step time (ms)"};
    if (series.num_warmup_steps > 0)
      chart.regions.push_back({.from = run.trace_step.front(), .to = run.trace_warmup_end, .label = "warm-up"});
    chart.series.push_back({.name = "step time", .mark = draw::Mark::kLine, .x = run.trace_step, .y = run.trace_ms});
    draw::Series median{.name = "median", .mark = draw::Mark::kLine, .is_reference = true};
    median.x = {run.trace_warmup_end, run.trace_step.back()};
    median.y = {series.median_ms, series.median_ms};
    chart.series.push_back(std::move(median));
    charts.push_back(std::move(chart));
  }
  return charts;
}

std::optional<draw::Chart> breakdown_chart(const Curve& curve) {
  // From the work itself to what only waits; the phases are disjoint.
  static const std::vector<std::string> kOrder = {"forward",      "backward",  "optimizer", "h2d",
                                                  "exposed_comm", "data_wait", "telemetry", "other"};
  draw::StackedBars bars;
  for (const Point& point : curve.points)
    if (!point.phases_ms.empty()) bars.bars.push_back(size_text(curve, point.size));
  if (bars.bars.empty()) return std::nullopt;
  const auto add_part = [&](const std::string& phase) {
    std::vector<double> values;
    for (const Point& point : curve.points)
      if (!point.phases_ms.empty()) {
        const auto found = point.phases_ms.find(phase);
        values.push_back(found != point.phases_ms.end() && std::isfinite(found->second) ? found->second : 0);
      }
    if (std::all_of(values.begin(), values.end(), [](double ms) { return ms == 0; })) return;
    bars.parts.push_back(phase);
    bars.values.push_back(std::move(values));
  };
  for (const std::string& phase : kOrder) add_part(phase);
  for (const Point& point : curve.points)
    for (const auto& [phase, ms] : point.phases_ms)
      if (std::find(kOrder.begin(), kOrder.end(), phase) == kOrder.end() &&
          std::find(bars.parts.begin(), bars.parts.end(), phase) == bars.parts.end())
        add_part(phase);
  if (bars.parts.empty()) return std::nullopt;
  draw::Chart chart{.id = "breakdown-" + curve.id, .title = "Where a step's time goes: " + curve.name};
  chart.summary = "Mean milliseconds of a step by phase, from computing at the bottom to waiting at the top.";
  chart.caption = "Rank 0, measured window. exposed_comm is the time in which nothing but a collective was left to do.";
  chart.x.title = curve.is_by_devices ? "devices" : "nodes";
  chart.y = {.title = "ms per step", .min = 0};
  chart.bars = std::move(bars);
  return chart;
}

std::vector<draw::Chart> collective_charts(const Curve& curve, const std::vector<RunSummary>& runs) {
  std::map<std::string, draw::Series> by_kind;
  for (const Point& point : curve.points)
    for (const CollectiveRow& row : collective_rows(point, runs)) {
      if (!std::isfinite(row.busbw_gbytes_per_s) || row.bytes < 1 || row.busbw_gbytes_per_s <= 0) continue;
      draw::Series& series = by_kind[fmt::format("{} over {} ranks", row.kind, row.group_size)];
      series.x.push_back(row.bytes);
      series.y.push_back(row.busbw_gbytes_per_s);
    }
  draw::Chart chart{.id = "busbw-" + curve.id, .title = "Bus bandwidth of collectives: " + curve.name};
  chart.summary = "Bus bandwidth against the bytes of a call, as ranks saw it.";
  chart.x = {.title = "bytes of a call", .scale = draw::Scale::kLog2};
  chart.y = {.title = "busbw (GB/s)", .min = 0};
  for (auto& [kind, series] : by_kind) {
    if (series.x.size() < 2 || chart.series.size() == kMaxCdfPerChart) continue;
    series.name = kind;
    chart.series.push_back(series);
  }
  return chart.series.empty() ? std::vector<draw::Chart>{} : std::vector<draw::Chart>{chart};
}

std::optional<draw::Chart> loss_chart(const Analysis& analysis) {
  draw::Chart chart{.id = "loss", .title = "Loss against samples seen"};
  chart.summary =
      "All sizes overlaid: where a larger batch needs more samples for the same loss, its curve lies to the right.";
  chart.x.title = "samples seen";
  chart.y.title = "training loss";
  size_t num_hidden = 0;
  for (size_t index = 0; index < analysis.runs.size(); ++index) {
    const RunSummary& run = analysis.runs[index];
    const Curve* curve = nullptr;
    const Point* point = point_of_run(analysis, index, curve);
    if (run.losses.size() < 3 || point == nullptr) continue;
    if (chart.series.size() == kMaxLossSeries) {
      ++num_hidden;
      continue;
    }
    draw::Series series{.name = fmt::format("{} ({})", run.name, size_text(*curve, point->size)),
                        .mark = draw::Mark::kLine};
    for (const LossPoint& loss : window_means(run.losses, kMaxLossWindows)) {
      series.x.push_back(loss.samples_seen);
      series.y.push_back(loss.loss);
    }
    chart.series.push_back(std::move(series));
  }
  if (chart.series.empty()) return std::nullopt;
  chart.caption = "Means over windows of samples.";
  if (num_hidden > 0)
    chart.caption += fmt::format(" {} further runs are not drawn; the table counts them all the same.", num_hidden);
  return chart;
}

}  // namespace lockstep::analysis
