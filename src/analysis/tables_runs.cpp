// Tables of one curve that look into its single runs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "analysis/cells.h"
#include "analysis/collectives.h"
#include "analysis/tables_runs.h"
#include "core/strings.h"
#include "core/units.h"
#include "stats/statistics.h"

namespace lockstep::analysis {
namespace {
constexpr size_t kMaxRanksShown = 16, kMaxInterfaces = 8;

draw::Column size_column(const Curve& curve) {
  return curve.is_by_devices ? column("devices", "devices") : column("nodes", "nodes");
}
draw::Cell size_cell(const Point& point) {
  return point.size > 0 ? count_cell(point.size) : missing_cell("the source does not tell");
}

std::string outlier_text(const stats::SeriesSummary& series) {
  size_t isolated = 0, periodic = 0, regime = 0;
  for (const stats::Outlier& outlier : series.outliers) {
    isolated += outlier.kind == stats::OutlierKind::kIsolated ? 1 : 0;
    periodic += outlier.kind == stats::OutlierKind::kPeriodic ? 1 : 0;
    regime += outlier.kind == stats::OutlierKind::kRegime ? 1 : 0;
  }
  std::vector<std::string> parts;
  if (isolated > 0) parts.push_back(fmt::format("{} isolated", isolated));
  if (periodic > 0) parts.push_back(fmt::format("{} periodic", periodic));
  if (regime > 0) parts.push_back(fmt::format("{} in another regime", regime));
  return parts.empty() ? "none" : core::join(parts, ", ");
}

using ProtocolNumber = std::optional<double> ProtocolResult::*;

/// Median over a point's runs of what one protocol says; NaN where it says nothing of any.
double protocol_median(const Point& point, const std::vector<RunSummary>& runs, size_t protocol,
                       ProtocolNumber number) {
  std::vector<double> values;
  for (const size_t index : point.runs)
    if (const auto value = runs[index].protocols[protocol].*number) values.push_back(*value);
  return values.empty() ? std::nan("") : stats::median(values);
}

/// Share of the peak by the TFLOP/s that a protocol takes from the log, else by its rate; NaN
/// without FLOPs, peak or either.
double protocol_mfu(const Point& point, const std::vector<RunSummary>& runs, size_t protocol) {
  const double logged = protocol_median(point, runs, protocol, &ProtocolResult::tflops_per_device) / point.peak_tflops;
  if (std::isfinite(logged)) return logged;
  return point.mfu * protocol_median(point, runs, protocol, &ProtocolResult::samples_per_s) / point.samples_per_s.value;
}

/// A protocol's number per size over that of the curve's base, by the same protocol; NaN without a base.
double protocol_efficiency(const Curve& curve, const Point& point, const std::vector<RunSummary>& runs,
                           size_t protocol) {
  if (!curve.base) return std::nan("");
  const auto ratio = [&](ProtocolNumber number) {
    return protocol_median(point, runs, protocol, number) /
           protocol_median(curve.points[*curve.base], runs, protocol, number);
  };
  const double logged = ratio(&ProtocolResult::tflops_per_device);
  if (std::isfinite(logged)) return logged;
  return ratio(&ProtocolResult::samples_per_s) * static_cast<double>(curve.points[*curve.base].size) /
         static_cast<double>(point.size);
}

std::vector<draw::Cell> protocol_row(const Curve& curve, const Point& point, const std::vector<RunSummary>& runs,
                                     size_t protocol) {
  std::vector<double> ours, ratios;
  for (const size_t index : point.runs)
    if (const auto step_ms = runs[index].protocols[protocol].step_ms) {
      ours.push_back(runs[index].series->median_ms);
      ratios.push_back(*step_ms / ours.back());
    }
  const ProtocolResult& first = runs[point.runs.front()].protocols[protocol];
  const bool wants_sentence = point.runs.size() == 1 || ratios.empty();
  const bool are_means = std::any_of(point.runs.begin(), point.runs.end(),
                                     [&](size_t index) { return runs[index].protocols[protocol].is_of_means; });
  const std::string note = wants_sentence ? first.sentence
                           : are_means
                               ? "rows of these logs are means over several steps, where the protocol has single ones"
                               : "";
  std::vector<draw::Cell> row = {size_cell(point), text_cell(std::string(protocol_name(first.protocol)), note),
                                 count_cell(static_cast<int64_t>(point.runs.size()))};
  for (const ProtocolNumber number : {&ProtocolResult::step_ms, &ProtocolResult::samples_per_s,
                                      &ProtocolResult::tokens_per_s, &ProtocolResult::tflops_per_device})
    row.push_back(figure_cell(protocol_median(point, runs, protocol, number)));
  row.push_back(ours.empty() ? draw::Cell{} : figure_cell(stats::median(ours)));
  row.push_back(ratios.empty() ? draw::Cell{} : fixed_cell(100 * (stats::median(ratios) - 1), 2));
  for (const double share : {protocol_mfu(point, runs, protocol), point.mfu,
                             protocol_efficiency(curve, point, runs, protocol), point.efficiency.value})
    row.push_back(percent_cell(share));
  return row;
}
}  // namespace

draw::Table distribution_table(const Curve& curve, const std::vector<RunSummary>& runs) {
  draw::Table table{.id = "steps-" + curve.id,
                    .title = "Step times run by run: " + curve.name,
                    .caption =
                        "Warm-up is left out of every number here; outliers (more than 5 x 1.4826 x MAD from the "
                        "median) are counted, never dropped. Undisturbed = height of the elbow in the distribution; "
                        "tail = mean / median - 1. Interval: both arms of the median's, at 95 %, over the median."};
  table.columns = {size_column(curve),
                   text_column("run", "run"),
                   column("warm-up (rows)", "warmup_rows"),
                   column("measured (rows)", "measured_rows"),
                   column("seconds", "measured_s"),
                   column("effective", "effective_steps"),
                   column("median (ms)", "median_ms"),
                   column("interval (%)", "half_width_pct"),
                   column("mean (ms)", "mean_ms"),
                   column("p99/p50", "p99_over_p50"),
                   column("cv (%)", "cv_pct"),
                   column("undisturbed (%)", "elbow_pct"),
                   column("tail (%)", "tail_pct"),
                   text_column("outliers", "outliers")};
  for (const Point& point : curve.points)
    for (const size_t index : point.runs) {
      const RunSummary& run = runs[index];
      const stats::SeriesSummary& series = *run.series;
      const auto& interval = series.median_interval;
      const bool is_told = interval && (point.runs.size() > 1 || point.no_interval.empty());
      const draw::Cell half =
          is_told ? draw::Cell{.text = fmt::format("{:+.2f} {:+.2f}", 100 * (interval->low / series.median_ms - 1),
                                                   100 * (interval->high / series.median_ms - 1)),
                               .value = 50 * (interval->high - interval->low) / series.median_ms,
                               .note = {}}
                  : missing_cell(interval ? point.no_interval : "too few steps for an interval");
      const draw::Cell p99 =
          series.p99_ms ? fixed_cell(*series.p99_ms / series.median_ms, 3) : missing_cell("from 100 measured steps on");
      table.rows.push_back(
          {size_cell(point), text_cell(run.name), count_cell(static_cast<int64_t>(series.num_warmup_steps)),
           count_cell(static_cast<int64_t>(series.num_measured_steps)), figure_cell(run.measured_s, 3),
           figure_cell(series.effective_steps, 3), figure_cell(series.median_ms), half, figure_cell(series.mean_ms),
           p99, fixed_cell(100 * series.coefficient_of_variation, 2), fixed_cell(100 * series.elbow, 1),
           fixed_cell(100 * series.tail_cost, 2), text_cell(outlier_text(series))});
    }
  return table;
}

draw::Table collective_table(const Curve& curve, const std::vector<RunSummary>& runs) {
  draw::Table table{.id = "collectives-" + curve.id,
                    .title = "Collectives: " + curve.name,
                    .caption =
                        "algbw = bytes / time of a call; busbw = algbw x 2(n-1)/n for all-reduce, (n-1)/n for "
                        "all-gather, reduce-scatter and all-to-all (bytes counted over the full array), 1 for the "
                        "rest. Both in GB/s (10^9); link rates are in Gbit/s. The time runs from the call to the end "
                        "of its wait: work that ran meanwhile and waiting for the slowest rank are in it, so "
                        "bandwidths are lower bounds. Blocked: what the host could not use for anything else."};
  table.columns = {size_column(curve),
                   text_column("collective", "kind"),
                   text_column("axis", "axis"),
                   column("ranks", "group_size"),
                   column("bytes", "bytes"),
                   column("calls per step", "calls_per_step"),
                   column("time (ms)", "time_ms"),
                   column("blocked (ms)", "blocked_ms"),
                   column("algbw (GB/s)", "algbw_gbytes_per_s"),
                   column("busbw (GB/s)", "busbw_gbytes_per_s")};
  for (const Point& point : curve.points)
    for (const CollectiveRow& row : collective_rows(point, runs)) {
      draw::Cell bus = figure_cell(row.busbw_gbytes_per_s, 3);
      bus.note = row.doubt;
      table.rows.push_back({size_cell(point), text_cell(row.kind), text_cell(row.axis), count_cell(row.group_size),
                            fixed_cell(row.bytes, 0), figure_cell(row.calls_per_step, 3), figure_cell(row.time_ms),
                            figure_cell(row.blocked_ms, 3), figure_cell(row.algbw_gbytes_per_s, 3), bus});
    }
  return table;
}

draw::Table straggler_table(const Curve& curve, const std::vector<RunSummary>& runs) {
  draw::Table table{.id = "stragglers-" + curve.id, .title = "Slowest ranks: " + curve.name};
  table.caption = fmt::format(
      "Means per step and rank over the measured intervals. Own work = computing and waiting for data, which no other "
      "rank can delay (the whole step where ranks recorded no parts); above = own work over the median rank's, as a "
      "share of the step. The slowest rank waits least for the others. At most {} ranks of a run are shown, slowest "
      "first.",
      kMaxRanksShown);
  table.columns = {size_column(curve),
                   text_column("run", "run"),
                   column("rank", "rank"),
                   text_column("host", "host"),
                   column("step (ms)", "step_ms"),
                   column("own work (ms)", "work_ms"),
                   column("compute (ms)", "compute_ms"),
                   column("data wait (ms)", "data_wait_ms"),
                   column("comm. wait (ms)", "comm_wait_ms"),
                   column("above (%)", "excess_pct"),
                   column("slowest in (%)", "slowest_pct"),
                   column("intervals", "intervals")};
  for (const Point& point : curve.points)
    for (const size_t index : point.runs) {
      std::vector<RankShare> ranks = runs[index].ranks;
      if (const auto& skew = runs[index].skew)
        table.notes.push_back(
            fmt::format("{}: in the mean step the slowest rank's own work lies {} ms ({:.1f} % of the step) above the "
                        "mean and {} ms above the median of all ranks",
                        runs[index].name, figure_text(skew->over_mean_ms, 3), 100 * skew->over_mean_ms / skew->step_ms,
                        figure_text(skew->over_median_ms, 3)));
      std::stable_sort(ranks.begin(), ranks.end(),
                       [](const RankShare& a, const RankShare& b) { return a.work_ms > b.work_ms; });
      if (ranks.size() > kMaxRanksShown) {
        table.notes.push_back(
            fmt::format("{}: {} faster ranks are not shown", runs[index].name, ranks.size() - kMaxRanksShown));
        ranks.resize(kMaxRanksShown);
      }
      for (const RankShare& rank : ranks)
        table.rows.push_back({size_cell(point), text_cell(runs[index].name), count_cell(rank.rank),
                              text_cell(rank.host), figure_cell(rank.step_ms), figure_cell(rank.work_ms),
                              figure_cell(rank.compute_ms), figure_cell(rank.data_wait_ms, 3),
                              figure_cell(rank.comm_wait_ms, 3), fixed_cell(100 * rank.excess, 2),
                              fixed_cell(100 * rank.slowest_share, 1),
                              count_cell(static_cast<int64_t>(runs[index].num_rank_intervals))});
    }
  return table;
}

draw::Table host_table(const Curve& curve, const std::vector<RunSummary>& runs) {
  draw::Table table{.id = "hosts-" + curve.id,
                    .title = "Hosts over all runs: " + curve.name,
                    .caption =
                        "Mean over a host's ranks of the own work above the median rank of the same run, as a share of "
                        "the step; a host that is slow in several runs is a host to exclude."};
  table.columns = {text_column("host", "host"), column("runs", "runs"), column("ranks", "ranks"),
                   column("above (%)", "excess_pct"), column("slowest in (%)", "slowest_pct")};
  struct Host {
    std::set<size_t> runs;
    double excess = 0, slowest = 0, ranks = 0;
  };
  std::map<std::string, Host> hosts;
  for (const Point& point : curve.points)
    for (const size_t index : point.runs)
      for (const RankShare& rank : runs[index].ranks) {
        if (rank.host.empty()) continue;
        Host& host = hosts[rank.host];
        host.runs.insert(index);
        host.excess += rank.excess;
        host.slowest += rank.slowest_share;
        host.ranks += 1;
      }
  if (hosts.size() < 2) return table;
  std::vector<std::pair<std::string, Host>> sorted(hosts.begin(), hosts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second.excess / a.second.ranks > b.second.excess / b.second.ranks;
  });
  for (const auto& [name, host] : sorted)
    table.rows.push_back({text_cell(name), count_cell(static_cast<int64_t>(host.runs.size())),
                          count_cell(static_cast<int64_t>(host.ranks)), fixed_cell(100 * host.excess / host.ranks, 2),
                          fixed_cell(100 * host.slowest / static_cast<double>(host.runs.size()), 1)});
  return table;
}

draw::Table resource_table(const Curve& curve) {
  draw::Table table{.id = "memory-network-" + curve.id, .title = "Memory and network: " + curve.name};
  table.caption = fmt::format(
      "Memory: the largest that rank 0 had in the measured attempts, other ranks are not recorded; of the host the "
      "resident size of its process, of its device all tensors. Network: growth of the counters of a host's interfaces "
      "behind the warm-up over its steps, mean over hosts; whatever else runs on the host is in it, and what lies "
      "between steps. Rate: over the mean step, in 10^9 bytes a second (a link's rate is told in Gbit/s, 8 times "
      "that). Ports of InfiniBand also count what passes as an IP interface. At most {} interfaces of a size are "
      "shown, the busiest first.",
      kMaxInterfaces);
  table.columns = {size_column(curve),
                   column("peak host memory of rank 0 (GiB)", "host_memory_gib"),
                   column("peak device memory of rank 0 (GiB)", "device_memory_gib"),
                   text_column("interface", "interface"),
                   column("received per step (MB)", "received_mbytes_per_step"),
                   column("sent per step (MB)", "sent_mbytes_per_step"),
                   column("received (GB/s)", "received_gbytes_per_s"),
                   column("sent (GB/s)", "sent_gbytes_per_s")};
  const auto gib_cell = [](const std::optional<double>& bytes) {
    return bytes ? figure_cell(*bytes / (1 << 30), 3) : missing_cell("no record tells");
  };
  for (const Point& point : curve.points) {
    std::vector<std::pair<std::string, NetworkUse>> busiest;
    for (const auto& [name, use] : point.network_per_step)
      if (use.received_bytes + use.sent_bytes > 0) busiest.emplace_back(name, use);
    std::stable_sort(busiest.begin(), busiest.end(), [](const auto& a, const auto& b) {
      return a.second.received_bytes + a.second.sent_bytes > b.second.received_bytes + b.second.sent_bytes;
    });
    if (busiest.size() > kMaxInterfaces) {
      table.notes.push_back(fmt::format("{}: {} interfaces with less traffic are not shown",
                                        size_text(curve, point.size), busiest.size() - kMaxInterfaces));
      busiest.resize(kMaxInterfaces);
    }
    if (busiest.empty() && (point.memory.host_bytes || point.memory.device_bytes)) busiest.emplace_back();
    const double step_s = point.has_step_time ? point.estimate.mean_ms / 1e3 : std::nan("");
    for (const auto& [name, use] : busiest) {
      std::vector<draw::Cell> row = {size_cell(point), gib_cell(point.memory.host_bytes),
                                     gib_cell(point.memory.device_bytes)};
      if (name.empty())
        row.insert(row.end(), {missing_cell("no record tells"), {}, {}, {}, {}});
      else
        row.insert(row.end(),
                   {text_cell(name), figure_cell(use.received_bytes / 1e6, 3), figure_cell(use.sent_bytes / 1e6, 3),
                    figure_cell(use.received_bytes / 1e9 / step_s, 3), figure_cell(use.sent_bytes / 1e9 / step_s, 3)});
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

draw::Table startup_table(const Curve& curve, const std::vector<RunSummary>& runs) {
  draw::Table table{
      .id = "startup-" + curve.id,
      .title = "Time to the first step: " + curve.name,
      .caption = "Median seconds over the runs of a size (first attempts), from the start of the process."};
  table.columns = {size_column(curve)};
  std::vector<std::string> phases;
  for (const Point& point : curve.points)
    for (const size_t index : point.runs)
      for (const record::StartupTimes& start : runs[index].startup)
        for (const auto& [phase, ms] : start.phases_ms)
          if (std::find(phases.begin(), phases.end(), phase) == phases.end()) phases.push_back(phase);
  if (phases.empty()) return table;
  for (const std::string& phase : phases) table.columns.push_back(column(phase + " (s)", phase + "_s"));
  table.columns.push_back(column("sum (s)", "time_to_first_step_s"));
  for (const Point& point : curve.points) {
    std::vector<draw::Cell> row = {size_cell(point)};
    double sum = 0;
    for (const std::string& phase : phases) {
      std::vector<double> values;
      for (const size_t index : point.runs)
        if (!runs[index].startup.empty())
          for (const auto& [name, ms] : runs[index].startup.front().phases_ms)
            if (name == phase && std::isfinite(ms)) values.push_back(ms / 1e3);
      row.push_back(values.empty() ? draw::Cell{} : figure_cell(stats::median(values), 3));
      sum += values.empty() ? 0 : stats::median(values);
    }
    row.push_back(sum > 0 ? figure_cell(sum, 3) : draw::Cell{});
    table.rows.push_back(std::move(row));
  }
  return table;
}

draw::Table evaluation_table(const Curve& curve, const std::vector<RunSummary>& runs) {
  draw::Table table{
      .id = "evaluation-" + curve.id,
      .title = "Time of evaluations: " + curve.name,
      .caption = "Wall clock of each evaluation, which lies between steps and is billed; over the runs of a size."};
  table.columns = {size_column(curve), column("evaluations", "evaluations"), column("median (s)", "median_s"),
                   column("sum (s)", "sum_s")};
  for (const Point& point : curve.points) {
    std::vector<double> seconds;
    for (const size_t index : point.runs)
      for (const record::ResultRecord& result : runs[index].results)
        if (result.seconds) seconds.push_back(*result.seconds);
    if (seconds.empty()) continue;
    table.rows.push_back({size_cell(point), count_cell(static_cast<int64_t>(seconds.size())),
                          figure_cell(stats::median(seconds), 3),
                          figure_cell(std::accumulate(seconds.begin(), seconds.end(), 0.0), 3)});
  }
  return table;
}

draw::Table protocol_table(const Curve& curve, const std::vector<RunSummary>& runs) {
  draw::Table table{
      .id = "protocols-" + curve.id,
      .title = "Other ways of measuring: " + curve.name,
      .caption =
          "What named estimators of published benchmarks say of the same runs, beside ours: medians over the runs of a "
          "size; the difference is theirs over ours in the same runs, minus 1. Their MFU and efficiency follow from "
          "the logged TFLOP/s where they take those, else from their rate and our FLOPs; peak and base are ours. Of a "
          "size with one run, or where no run has a value, the note says what the estimator used or lacks."};
  table.columns = {size_column(curve),
                   text_column("protocol", "protocol"),
                   column("runs", "runs"),
                   column("step (ms)", "step_ms"),
                   column("samples/s", "samples_per_s"),
                   column("tokens/s", "tokens_per_s"),
                   column("TFLOP/s per device", "tflops_per_device"),
                   column("our step (ms)", "our_step_ms"),
                   column("difference (%)", "difference_pct"),
                   column("MFU (%)", "mfu_pct"),
                   column("our MFU (%)", "our_mfu_pct"),
                   column("efficiency (%)", "efficiency_pct"),
                   column("our efficiency (%)", "our_efficiency_pct")};
  for (const Point& point : curve.points)
    for (size_t protocol = 0; protocol < runs[point.runs.front()].protocols.size(); ++protocol)
      table.rows.push_back(protocol_row(curve, point, runs, protocol));
  return table;
}

}  // namespace lockstep::analysis
