#include "report/analysis_collectives.h"

#include <fmt/format.h>

#include <cmath>
#include <tuple>

#include "core/strings.h"
#include "record/bus_factor.h"
#include "report/analysis_cells.h"

namespace lockstep::report {
namespace {
/// Above what memory of any device today moves: a byte count that is not what it seems.
constexpr double kImpossibleGbytesPerS = 8000;

struct Total {
  double count = 0, num_steps = 0, time_ms = 0, blocked_ms = 0;
};
}  // namespace

std::vector<CollectiveRow> collective_rows(const Point& point, const std::vector<RunSummary>& runs) {
  std::map<std::tuple<std::string, std::string, int, double>, Total> totals;
  for (const size_t index : point.runs)
    for (const record::CollectiveTotal& one : runs[index].collectives) {
      Total& total = totals[{one.axis, one.kind, one.group_size, one.bytes}];
      total.count += static_cast<double>(one.count);
      total.num_steps += one.num_steps > 0 ? static_cast<double>(one.num_steps) : NAN;
      total.time_ms += one.time_ms;
      total.blocked_ms += one.blocked_ms;
    }
  std::vector<CollectiveRow> rows;
  for (const auto& [key, total] : totals) {
    if (total.count <= 0) continue;
    CollectiveRow row;
    std::tie(row.axis, row.kind, row.group_size, row.bytes) = key;
    row.calls_per_step = total.count / total.num_steps;
    row.time_ms = total.time_ms / total.count;
    row.blocked_ms = total.blocked_ms / total.count;
    row.algbw_gbytes_per_s = row.time_ms > 0 ? row.bytes / row.time_ms / 1e6 : NAN;
    row.busbw_gbytes_per_s = row.algbw_gbytes_per_s * record::bus_factor(row.kind, row.group_size).value_or(NAN);
    if (row.busbw_gbytes_per_s > kImpossibleGbytesPerS)
      row.doubt = fmt::format("a bus bandwidth of {:.0f} GB/s is above what any device's memory moves", row.busbw_gbytes_per_s);
    rows.push_back(row);
  }
  return rows;
}

Table collective_benchmark_table(const std::vector<RunSummary>& runs) {
  Table table{.id = "collective-benchmarks",
              .title = "Collectives",
              .caption = "Measured by nccl-tests or `lockstep bench collective`: algbw = bytes / time; busbw = algbw x 2(n-1)/n for all-reduce, "
                         "(n-1)/n for all-gather, reduce-scatter and all-to-all, 1 for the rest. Both in GB/s (10^9)."};
  table.columns = {text_column("run", "run"),       text_column("operation", "operation"),       text_column("buffer", "buffer"),
                   column("ranks", "ranks"),        column("bytes", "bytes"),                    column("time (us)", "time_us"),
                   column("algbw (GB/s)", "algbw_gbytes_per_s"), column("busbw (GB/s)", "busbw_gbytes_per_s"), column("wrong", "num_wrong")};
  for (const RunSummary& run : runs)
    for (const record::CollectivePoint& point : run.collective_points)
      table.rows.push_back({text_cell(run.name), point.kind.empty() ? missing_cell("the source does not tell") : text_cell(point.kind),
                            text_cell(point.is_in_place ? "in place" : "out of place"),
                            point.num_ranks > 0 ? count_cell(point.num_ranks) : missing_cell("the source does not tell"),
                            fixed_cell(point.bytes, 0), figure_cell(point.time_us), figure_cell(point.algbw_gbytes_per_s, 3),
                            figure_cell(point.busbw_gbytes_per_s, 3),
                            point.num_wrong ? count_cell(*point.num_wrong) : missing_cell("not checked")});
  return table;
}

std::vector<Chart> collective_benchmark_charts(const std::vector<RunSummary>& runs) {
  constexpr size_t kMaxSeries = 6;
  std::map<std::string, Series> by_name;
  size_t num_sources = 0;
  for (const RunSummary& run : runs) num_sources += run.collective_points.empty() ? 0 : 1;
  for (const RunSummary& run : runs)
    for (const record::CollectivePoint& point : run.collective_points) {
      if (point.bytes < 1 || !std::isfinite(point.busbw_gbytes_per_s) || point.busbw_gbytes_per_s <= 0) continue;
      std::string name = fmt::format("{}, {}", point.kind.empty() ? "unknown" : point.kind, point.is_in_place ? "in place" : "out of place");
      if (num_sources > 1) name += fmt::format(" ({})", run.name);
      Series& series = by_name[name];
      series.x.push_back(point.bytes);
      series.y.push_back(point.busbw_gbytes_per_s);
    }
  std::vector<Chart> charts;
  for (auto& [name, series] : by_name) {
    if (charts.empty() || charts.back().series.size() == kMaxSeries) {
      Chart chart{.id = charts.empty() ? "collectives-busbw" : fmt::format("collectives-busbw-{}", charts.size() + 1), .title = "Bus bandwidth of collectives"};
      chart.summary = "Bus bandwidth against the bytes of a call.";
      chart.x = {.title = "bytes of a call", .scale = Scale::kLog2};
      chart.y = {.title = "busbw (GB/s)", .scale = Scale::kLinear, .min = 0, .max = {}, .ticks = {}};
      charts.push_back(std::move(chart));
    }
    series.name = name;
    charts.back().series.push_back(std::move(series));
  }
  return charts;
}

}  // namespace lockstep::report
