#include "analysis/latency.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "analysis/cells.h"

namespace lockstep::analysis {
namespace {

using record::LatencyPoint;

/// "lockstep ViT-B-32 bf16, both from pixels": what the points of one line have in common.
std::string line_name(const RunSummary& run, const LatencyPoint& point, bool has_several_runs) {
  std::string name = fmt::format("{} {} {}", point.program, point.model, point.precision);
  if (!point.tower.empty()) name += fmt::format(", {} from {}", point.tower, point.from);
  if (!has_several_runs) return name;
  const auto system = run.setup.tags.find("system");
  const std::string& place = system != run.setup.tags.end() ? system->second : run.setup.device;
  return name + fmt::format(" ({})", place.empty() ? run.name : place);
}

/// A line may be put together from several runs: the points of a sweep.
void sort_by_batch(draw::Series& series) {
  std::vector<size_t> order(series.x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return series.x[a] < series.x[b]; });
  for (auto* column : {&series.x, &series.y, &series.low, &series.high}) {
    const std::vector<double> unsorted = *column;
    for (size_t i = 0; i < order.size(); ++i) (*column)[i] = unsorted[order[i]];
  }
}

/// Of a published table, which has no towers, nobody knows whether a call had a text.
draw::Cell text_tokens_cell(const LatencyPoint& point) {
  if (point.text_tokens > 0) return count_cell(point.text_tokens);
  return missing_cell(point.tower.empty() ? "the source does not tell" : "no text");
}

draw::Cell told(const std::string& text) {
  return text.empty() ? missing_cell("the source does not tell") : text_cell(text);
}

draw::Cell interval_cell(const LatencyPoint& point) {
  if (!std::isfinite(point.p50_low_ms)) return missing_cell("no interval: too few calls, or the source tells none");
  return text_cell(fmt::format("{} to {}", figure_text(point.p50_low_ms), figure_text(point.p50_high_ms)));
}

}  // namespace

draw::Table latency_table(const std::vector<RunSummary>& runs) {
  draw::Table table{.id = "latency",
                    .title = "Inference latency",
                    .caption =
                        "Median, its 95 % interval, 90th and 99th percentile of single calls, from an input on the "
                        "host to the result on the host (`lockstep bench latency`). Rows of other programs are "
                        "those of the tables given, as published."};
  table.columns = {
      text_column("run", "run"),          text_column("device", "device"),      text_column("program", "program"),
      text_column("model", "model"),      text_column("type", "precision"),     text_column("call", "call"),
      column("batch", "batch"),           column("text tokens", "text_tokens"), column("p50 (ms)", "p50_ms"),
      text_column("95 % (ms)", "p50_95"), column("p90 (ms)", "p90_ms"),         column("p99 (ms)", "p99_ms"),
      column("rate (1/s)", "per_s"),      column("tokens/s", "tokens_per_s"),   column("first call (ms)", "first_ms")};
  for (const RunSummary& run : runs)
    for (const LatencyPoint& point : run.latency_points)
      table.rows.push_back({text_cell(run.name), told(run.setup.device), text_cell(point.program), told(point.model),
                            told(point.precision),
                            told(point.tower.empty() ? "" : fmt::format("{} from {}", point.tower, point.from)),
                            count_cell(point.batch), text_tokens_cell(point), figure_cell(point.p50_ms),
                            interval_cell(point), figure_cell(point.p90_ms), figure_cell(point.p99_ms),
                            figure_cell(point.per_s), figure_cell(point.tokens_per_s), figure_cell(point.first_ms)});
  return table;
}

draw::Table latency_stage_table(const std::vector<RunSummary>& runs) {
  std::set<std::string> stages;
  for (const RunSummary& run : runs)
    for (const LatencyPoint& point : run.latency_points)
      for (const auto& [stage, ms] : point.stages_ms) stages.insert(stage);
  draw::Table table{.id = "latency-stages",
                    .title = "Latency by stage",
                    .caption = "Medians of each stage, in ms. They need not add up to the median of the whole."};
  if (stages.empty()) return table;
  table.columns = {text_column("run", "run"), text_column("call", "call"), text_column("type", "precision"),
                   column("batch", "batch")};
  for (const std::string& stage : stages) table.columns.push_back(column(stage + " (ms)", stage + "_ms"));
  for (const RunSummary& run : runs)
    for (const LatencyPoint& point : run.latency_points) {
      if (point.stages_ms.empty()) continue;
      std::vector<draw::Cell> row = {text_cell(run.name), text_cell(fmt::format("{} from {}", point.tower, point.from)),
                                     told(point.precision), count_cell(point.batch)};
      for (const std::string& stage : stages) {
        const auto found = point.stages_ms.find(stage);
        row.push_back(found == point.stages_ms.end() ? missing_cell("not in this call") : figure_cell(found->second));
      }
      table.rows.push_back(std::move(row));
    }
  return table;
}

std::vector<draw::Chart> latency_charts(const std::vector<RunSummary>& runs) {
  constexpr size_t kMaxSeries = 6;
  std::set<std::string> sources;
  for (const RunSummary& run : runs)
    if (!run.latency_points.empty()) sources.insert(run.name);
  std::map<std::string, draw::Series> by_name;
  for (const RunSummary& run : runs)
    for (const LatencyPoint& point : run.latency_points) {
      if (point.batch < 1 || !std::isfinite(point.p50_ms)) continue;
      draw::Series& series = by_name[line_name(run, point, sources.size() > 1)];
      series.x.push_back(static_cast<double>(point.batch));
      series.y.push_back(point.p50_ms);
      series.low.push_back(point.p50_low_ms);  // not finite where there is none
      series.high.push_back(point.p50_high_ms);
    }
  std::vector<draw::Chart> charts;
  for (auto& [name, series] : by_name) {
    if (charts.empty() || charts.back().series.size() == kMaxSeries) {
      draw::Chart chart{.id = charts.empty() ? "latency-batch" : fmt::format("latency-batch-{}", charts.size() + 1),
                        .title = "Latency by batch"};
      chart.summary =
          "Median latency of a call against its batch, with 95 % intervals where the calls were enough for one.";
      chart.x = {.title = "batch (samples)", .scale = draw::Scale::kLog2};
      chart.y = {.title = "latency (ms)", .scale = draw::Scale::kLog10};
      charts.push_back(std::move(chart));
    }
    series.name = name;
    sort_by_batch(series);
    if (std::none_of(series.low.begin(), series.low.end(), [](double low) { return std::isfinite(low); }))
      series.low.clear(), series.high.clear();
    charts.back().series.push_back(std::move(series));
  }
  return charts;
}

}  // namespace lockstep::analysis
