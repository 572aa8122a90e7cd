#include "analysis/collectives.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "analysis/cells.h"
#include "core/strings.h"
#include "core/units.h"
#include "record/bus_factor.h"

namespace lockstep::analysis {
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
      row.doubt =
          fmt::format("a bus bandwidth of {:.0f} GB/s is above what any device's memory moves", row.busbw_gbytes_per_s);
    rows.push_back(row);
  }
  return rows;
}

namespace {
/// Sizes of one operation that a benchmark measured.
struct Measured {
  std::vector<const record::CollectivePoint*> sizes;
};

draw::Cell known_text(const std::string& text) {
  return text.empty() ? missing_cell("the source does not tell") : text_cell(text);
}
draw::Cell known_count(int count) { return count > 0 ? count_cell(count) : missing_cell("the source does not tell"); }
draw::Cell bytes_cell(double bytes) { return {.text = core::format_bytes(bytes), .value = bytes}; }
const char* buffer_name(const record::CollectivePoint& point) {
  return point.is_in_place ? "in place" : "out of place";
}

std::vector<draw::Cell> summary_row(const RunSummary& run, const Measured& measured) {
  const record::CollectivePoint &first = *measured.sizes.front(), *smallest = nullptr, *fastest = nullptr;
  std::optional<int64_t> num_wrong;
  for (const record::CollectivePoint* point : measured.sizes) {
    if (point->bytes > 0 && (smallest == nullptr || point->bytes < smallest->bytes)) smallest = point;
    if (std::isfinite(point->busbw_gbytes_per_s) &&
        (fastest == nullptr || point->busbw_gbytes_per_s > fastest->busbw_gbytes_per_s))
      fastest = point;
    if (point->num_wrong) num_wrong = num_wrong.value_or(0) + *point->num_wrong;
  }
  return {text_cell(run.name),
          known_text(first.kind),
          text_cell(buffer_name(first)),
          known_count(first.num_ranks),
          fastest != nullptr ? figure_cell(fastest->busbw_gbytes_per_s, 3) : draw::Cell{},
          fastest != nullptr ? bytes_cell(fastest->bytes) : draw::Cell{},
          smallest != nullptr ? figure_cell(smallest->time_us) : draw::Cell{},
          smallest != nullptr ? bytes_cell(smallest->bytes) : draw::Cell{},
          count_cell(static_cast<int64_t>(measured.sizes.size())),
          num_wrong ? count_cell(*num_wrong) : missing_cell("not checked")};
}
}  // namespace

draw::Table collective_summary_table(const std::vector<RunSummary>& runs) {
  draw::Table table{.id = "collective-summary",
                    .title = "Collectives: best bandwidth and least time",
                    .caption =
                        "One row for each file, operation and buffer: the largest bus bandwidth and the size that "
                        "reached it, and the time of the smallest message."};
  table.columns = {text_column("run", "run"),
                   text_column("operation", "operation"),
                   text_column("buffer", "buffer"),
                   column("ranks", "ranks"),
                   column("largest busbw (GB/s)", "busbw_gbytes_per_s"),
                   column("reached at", "busbw_bytes"),
                   column("least time (us)", "time_us"),
                   column("taken by", "time_bytes"),
                   column("sizes", "sizes"),
                   column("wrong", "num_wrong")};
  for (const RunSummary& run : runs) {
    std::map<std::tuple<std::string, int, bool>, Measured> parts;
    for (const record::CollectivePoint& point : run.collective_points)
      parts[{point.kind, point.num_ranks, point.is_in_place}].sizes.push_back(&point);
    for (const auto& [key, measured] : parts) table.rows.push_back(summary_row(run, measured));
  }
  return table;
}

draw::Table collective_benchmark_table(const std::vector<RunSummary>& runs) {
  draw::Table table{
      .id = "collective-benchmarks",
      .title = "Collectives by size",
      .caption =
          "Measured by nccl-tests or `lockstep bench collective`: algbw = bytes / time; busbw = algbw x 2(n-1)/n for "
          "all-reduce, (n-1)/n for all-gather, reduce-scatter and all-to-all, 1 for the rest. Both in GB/s (10^9)."};
  table.columns = {text_column("run", "run"),
                   text_column("operation", "operation"),
                   text_column("buffer", "buffer"),
                   column("ranks", "ranks"),
                   column("bytes", "bytes"),
                   column("time (us)", "time_us"),
                   column("algbw (GB/s)", "algbw_gbytes_per_s"),
                   column("busbw (GB/s)", "busbw_gbytes_per_s"),
                   column("wrong", "num_wrong")};
  for (const RunSummary& run : runs)
    for (const record::CollectivePoint& point : run.collective_points)
      table.rows.push_back({text_cell(run.name), known_text(point.kind), text_cell(buffer_name(point)),
                            known_count(point.num_ranks), fixed_cell(point.bytes, 0), figure_cell(point.time_us),
                            figure_cell(point.algbw_gbytes_per_s, 3), figure_cell(point.busbw_gbytes_per_s, 3),
                            point.num_wrong ? count_cell(*point.num_wrong) : missing_cell("not checked")});
  return table;
}

std::vector<draw::Chart> collective_benchmark_charts(const std::vector<RunSummary>& runs) {
  constexpr size_t kMaxSeries = 6;
  std::map<std::string, draw::Series> by_name;
  size_t num_sources = 0;
  for (const RunSummary& run : runs) num_sources += run.collective_points.empty() ? 0 : 1;
  for (const RunSummary& run : runs)
    for (const record::CollectivePoint& point : run.collective_points) {
      if (point.bytes < 1 || !std::isfinite(point.busbw_gbytes_per_s) || point.busbw_gbytes_per_s <= 0) continue;
      std::string name = fmt::format("{}, {}", point.kind.empty() ? "unknown" : point.kind, buffer_name(point));
      if (num_sources > 1) name += fmt::format(" ({})", run.name);
      draw::Series& series = by_name[name];
      series.x.push_back(point.bytes);
      series.y.push_back(point.busbw_gbytes_per_s);
    }
  std::vector<draw::Chart> charts;
  for (auto& [name, series] : by_name) {
    if (charts.empty() || charts.back().series.size() == kMaxSeries) {
      draw::Chart chart{
          .id = charts.empty() ? "collectives-busbw" : fmt::format("collectives-busbw-{}", charts.size() + 1),
          .title = "Bus bandwidth of collectives"};
      chart.summary = "Bus bandwidth against the bytes of a call.";
      chart.x = {.title = "bytes of a call", .scale = draw::Scale::kLog2};
      chart.y = {.title = "busbw (GB/s)", .min = 0};
      charts.push_back(std::move(chart));
    }
    series.name = name;
    charts.back().series.push_back(std::move(series));
  }
  return charts;
}

}  // namespace lockstep::analysis
