#include "sweep/collect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"
#include "core/is_there.h"
#include "record/measured_steps.h"
#include "record/run_data.h"
#include "stats/statistics.h"
#include "sweep/result_kind.h"

namespace lockstep::sweep {
namespace fs = std::filesystem;
namespace {
constexpr double kStopBeforeEndS = 120;

std::optional<double> largest(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(*std::max_element(values.begin(), values.end()));
}
std::optional<double> middle(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(stats::median(values));
}

/// The step time that a report tells of this run, and what follows from it.
void add_rates(const record::RunData& run, PointResult& result) {
  for (const int32_t count : run.steps.num_steps) result.num_steps += count;
  if (!run.steps.loss.empty() && std::isfinite(run.steps.loss.back())) result.last_loss = run.steps.loss.back();
  const record::MeasuredSteps measured = record::measure_steps(run);
  if (!measured.series) return;
  result.num_measured = measured.num_steps;
  result.step_ms = measured.series->median_ms;
  if (std::isfinite(measured.samples_per_step))
    result.samples_per_s = 1e3 * measured.samples_per_step / measured.series->median_ms;
  if (const auto& interval = measured.series->median_interval) {
    result.step_ms_low = interval->low;
    result.step_ms_high = interval->high;
  }
}

/// Start of the job to the end of the first step that it made: by the clock of that step, else the sum of the phases
/// the run noted.
std::optional<double> startup_seconds(const record::RunData& run, const PointResult& result) {
  for (size_t i = 0; i < run.steps.size(); ++i) {
    const double later_s =
        (run.steps.num_steps[i] - 1) * run.steps.step_ms[i] / 1000;  // a row may stand for several steps
    const double first_s = run.steps.time_s[i] - later_s;
    if (!std::isfinite(first_s)) continue;
    for (const JobSpan& span : result.view.spans)
      if (first_s >= span.start_s && first_s <= *span.end_s + 1) return first_s - span.start_s;
  }
  if (result.startup_ms.empty()) return std::nullopt;
  double sum_ms = 0;
  for (const auto& [phase, ms] : result.startup_ms) sum_ms += ms;
  return sum_ms / 1000;
}

void add_bench(const fs::path& document, PointResult& result) {
  const core::Json summary = read_bench_document(document).at("summary");
  for (const auto& [key, value] : summary.items())
    if (value.is_number()) result.bench[key] = value.get<double>();
}

PointResult collect_point(const fs::path& folder, const PointRecord& point, PointView view) {
  PointResult result{.point = &point, .view = std::move(view)};
  double ran_s = 0;
  std::map<std::string, int> starts;
  for (const JobSpan& span : result.view.spans) {
    ran_s += *span.end_s - span.start_s;
    if (++starts[span.job] > 1) ++result.num_requeues;
  }
  if (!result.view.spans.empty()) result.ran_s = ran_s;
  if (result.view.has_estimated_end && has_ended(point.status))
    result.problems.emplace_back("a job ended without a word: its end is the last sign of life");
  const fs::path left = folder / point.run;
  const bool is_bench = is_bench_document(left);
  try {
    if (!is_bench && !core::is_there(left / "run.json")) return result;
    if (is_bench) {
      add_bench(left, result);
      return result;
    }
    const record::RunData run = record::load_run(left);
    add_rates(run, result);
    if (!run.startup.empty())
      result.startup_ms.insert(run.startup[0].phases_ms.begin(), run.startup[0].phases_ms.end());
    result.startup_s = startup_seconds(run, result);
    result.problems.insert(result.problems.end(), run.problems.begin(), run.problems.end());
  } catch (const Error& error) {
    result.problems.emplace_back(error.what());
  }
  return result;
}

void count_jobs(const PointResult& result, Collection& collection) {
  for (const JobSpan& span : result.view.spans) {
    ++collection.num_jobs;
    const bool is_running = result.point->status == PointStatus::kRunning && &span == &result.view.spans.back();
    const bool ended_well =
        span.exit_code && (*span.exit_code == 0 || *span.exit_code == static_cast<int>(ExitCode::kRequeue));
    if (!is_running && !ended_well) ++collection.num_failed_jobs;
  }
}

/// `billed_nodes`: what an hour of such a point costs.
SizeSummary summarise_size(int64_t nodes, int64_t billed_nodes, const std::vector<const PointResult*>& results) {
  SizeSummary size{.nodes = nodes};
  std::vector<double> waits, startups, runs;
  for (const PointResult* result : results) {
    ++size.num_points;
    size.node_hours_planned += static_cast<double>(billed_nodes * result->point->time_limit_s) / 3600;
    size.node_hours_used += result->view.node_hours;
    size.time_limit_s = std::max(size.time_limit_s, result->point->time_limit_s);
    if (result->view.queue_wait_s) waits.push_back(*result->view.queue_wait_s);
    if (result->startup_s) startups.push_back(*result->startup_s);
    if (result->point->status != PointStatus::kFinished) continue;
    ++size.num_finished;
    if (result->ran_s) runs.push_back(*result->ran_s);
  }
  size.median_wait_s = middle(waits);
  size.max_wait_s = largest(waits);
  size.max_startup_s = largest(startups);
  size.max_ran_s = largest(runs);
  if (size.max_startup_s && size.max_ran_s)
    size.proposed_limit_s = propose_time_limit(*size.max_startup_s, *size.max_ran_s, kStopBeforeEndS);
  return size;
}
}  // namespace

int64_t propose_time_limit(double startup_s, double ran_s, double stop_before_end_s) {
  const double wanted_s = 1.5 * startup_s + 1.15 * std::max(0.0, ran_s - startup_s) + stop_before_end_s;
  const double unit_s = wanted_s < 900 ? 60 : 300;
  return static_cast<int64_t>(std::ceil(wanted_s / unit_s) * unit_s);
}

Collection collect(const fs::path& folder, const SweepState& state, const SlurmView* slurm, double now_s) {
  Collection collection;
  std::vector<PointView> views = view_points(folder, state, slurm, now_s);
  for (size_t i = 0; i < views.size(); ++i)
    collection.results.push_back(collect_point(folder, state.points[i], std::move(views[i])));
  std::map<int64_t, std::vector<const PointResult*>> by_size;
  for (const PointResult& result : collection.results) {
    by_size[result.point->nodes].push_back(&result);
    count_jobs(result, collection);
    const NodeDevices& devices = result.point->devices;
    collection.device_hours_used[devices.unit] += result.view.node_hours * static_cast<double>(devices.count);
  }
  if (collection.device_hours_used.contains("") || state.mode == "local") collection.device_hours_used.clear();
  for (const auto& [nodes, results] : by_size) {
    collection.sizes.push_back(summarise_size(nodes, state.mode == "local" ? 1 : nodes, results));
    collection.node_hours_planned += collection.sizes.back().node_hours_planned;
    collection.node_hours_used += collection.sizes.back().node_hours_used;
  }
  return collection;
}

}  // namespace lockstep::sweep
