// Tables of the resource estimate of a proposal.
#include "analysis/estimate_table.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <vector>

#include "analysis/cells.h"
#include "core/counted.h"
#include "core/strings.h"

namespace lockstep::analysis {

std::string unit_of(const Curve& curve) { return unit_name(curve) + "s"; }
bool is_one_machine(const Curve& curve) { return curve.is_by_devices && curve.shares_cores; }
bool is_in_device_hours(const Curve& curve) { return curve.is_by_devices && !is_one_machine(curve); }
std::optional<BilledUnit> billed_per_hour(const Curve& curve, const Point& point) {
  const auto unit = billed_unit(point);
  const auto places = static_cast<double>(is_in_device_hours(curve) ? point.devices : point.nodes);
  if (!unit || places <= 0 || unit->count == places) return std::nullopt;
  return BilledUnit{unit->name, unit->count / places};
}
std::string hours_of(const Curve& curve) {
  return is_in_device_hours(curve) ? std::string(device_word(curve)) + "-hours" : "node-hours";
}

namespace {
/// What the measured share of pauses rests on, which no interval of the total holds.
std::string pause_note(const Point& point, int64_t num_steps) {
  return fmt::format(
      "The share of pauses rests on {} pauses in {} measured steps, one every {:.0f} or so. A job that evaluates or "
      "saves "
      "more or less often, or writes to a busier file system, loses another share: --eval-share and --checkpoint-share "
      "give it. No interval above holds this.",
      point.num_pauses, num_steps, static_cast<double>(num_steps) / static_cast<double>(point.num_pauses));
}

/// Why the start-up of jobs is not in the total; empty where it is.
std::string startup_doubt(const ResourceEstimate& estimate, const ProposalOptions& options) {
  if (estimate.num_jobs > 0) return "";
  return options.job_hours
             ? fmt::format("; not in the total: a job of {:g} h is shorter than its start-up", *options.job_hours)
             : "; not in the total: the wall time of a job is not given (--job-hours)";
}

using AddRow = std::function<void(std::string item, const draw::Cell& value, std::string unit, std::string source)>;

/// What the estimate is in the unit that a site bills, and its price.
void add_billed_rows(const Curve& curve, const ResourceEstimate& estimate, const AnalysisOptions& analysis,
                     const AddRow& add) {
  if (const auto unit = billed_per_hour(curve, *estimate.measured_at))
    add(fmt::format("total in {}", unit->name), figure_cell(unit->count * estimate.total_node_hours), unit->name,
        fmt::format("{:g} to a {}", unit->count, is_in_device_hours(curve) ? device_word(curve) : "node"));
  if (analysis.price_per_node_hour && !is_in_device_hours(curve))
    add("price", figure_cell(estimate.total_node_hours * *analysis.price_per_node_hour), analysis.currency,
        fmt::format("{:g}{} per node-hour, given with --price-per-node-hour", *analysis.price_per_node_hour,
                    analysis.currency.empty() ? "" : " " + analysis.currency));
}

/// Where the total of an estimate is from, if it was not measured.
std::string total_source(const ResourceEstimate& estimate) {
  if (estimate.predicted)
    return fmt::format("predicted, not measured: 90 % interval {} to {}", figure_text(estimate.low_total_node_hours, 4),
                       figure_text(estimate.high_total_node_hours, 4));
  return estimate.kept_source.empty() ? "" : "extrapolated, not measured";
}

/// The efficiency and the step of a size that was not measured.
void add_predicted_rows(const Curve& curve, const ResourceEstimate& estimate, const AddRow& add) {
  const auto source = [](const std::string& low, const std::string& high) {
    return fmt::format("predicted, not measured: 90 % interval {} to {}", low, high);
  };
  if (const auto& share = estimate.efficiency)
    add("efficiency", fixed_cell(100 * share->median, 1), "%",
        source(fixed_text(100 * share->low, 1), fixed_text(100 * share->high, 1)) + " %, against " +
            size_text(curve, curve.points[*curve.base].size));
  if (const auto& step = estimate.step_s)
    add("step", figure_cell(step->median), "s",
        source(figure_text(step->low), figure_text(step->high)) + " s, of one measurement");
}

std::string size_source(const ResourceEstimate& estimate) {
  return estimate.predicted              ? "predicted, not measured (M15)"
         : !estimate.kept_source.empty() ? "extrapolated, not measured (M15)"
         : estimate.is_prediction        ? "not measured: a prediction (M15)"
                                         : "measured";
}

/// Of a curve of times: the time of one run holds its start and its pauses.
draw::Table work_estimate_table(const Curve& curve, const ResourceEstimate& estimate, const AnalysisOptions& analysis,
                                const ProposalOptions& options) {
  const Point& point = *estimate.measured_at;
  draw::Table table{.id = "estimate-" + curve.id, .title = "Resource estimate: " + curve.name};
  table.caption = hours_of(curve) +
                  " = N x T(N) x runs x (1 + restarts) + tests, with T(N) the time of the table in hours; every factor "
                  "with its source.";
  if (curve.is_by_devices)
    table.caption += " The table does not tell nodes: --job-nodes and --sweep-node-hours are not counted.";
  table.columns = {text_column("item", "item"), column("value", "value"), text_column("unit", "unit"),
                   text_column("source", "source")};
  const AddRow add = [&](std::string item, const draw::Cell& value, std::string unit, std::string source) {
    table.rows.push_back({text_cell(std::move(item)), value, text_cell(std::move(unit)), text_cell(std::move(source))});
  };
  const std::string thing = point.work_time->is_step ? "step" : "run";
  add("job size", count_cell(estimate.size), unit_of(curve), size_source(estimate));
  add("work", figure_cell(analysis.budget_runs, 3), thing + "s", work_source(point, analysis));
  add("time of one " + thing, figure_cell(24 * estimate.days / analysis.budget_runs), "h",
      !estimate.kept_source.empty() ? estimate.kept_source
                                    : fmt::format("{} of the table at {}{}", core::counted(point.runs.size(), "row"),
                                                  size_text(curve, point.size),
                                                  estimate.is_prediction ? ", the same rate per node assumed" : ""));
  add_predicted_rows(curve, estimate, add);
  add("computing", figure_cell(estimate.node_hours), hours_of(curve), "job size x work x time");
  add("restarts", fixed_cell(100 * estimate.restart_share, 2), "%", estimate.restart_source);
  if (!is_in_device_hours(curve))
    add("scaling tests and tuning", figure_cell(options.sweep_node_hours), hours_of(curve),
        options.sweep_node_hours > 0 ? "given with --sweep-node-hours" : "none");
  add("total", figure_cell(estimate.total_node_hours), hours_of(curve), total_source(estimate));
  add_billed_rows(curve, estimate, analysis, add);
  return table;
}
}  // namespace

draw::Cell predicted_cell(const PredictedNumber& number, double scale, int decimals) {
  draw::Cell cell = fixed_cell(scale * number.median, decimals);
  cell.note = fmt::format("predicted, not measured: 90 % interval {} to {}", fixed_text(scale * number.low, decimals),
                          fixed_text(scale * number.high, decimals));
  return cell;
}

std::string predicted_size_text(const Curve& curve, const ResourceEstimate& estimate) {
  std::vector<std::string> parts;
  if (const auto& share = estimate.efficiency)
    parts.push_back(fmt::format("an efficiency of {:.1f} % (90 % interval {:.1f} to {:.1f} %) against {}",
                                100 * share->median, 100 * share->low, 100 * share->high,
                                size_text(curve, curve.points[*curve.base].size)));
  if (const auto& step = estimate.step_s)
    parts.push_back(fmt::format("a step of {} s ({} to {} s)", figure_text(step->median), figure_text(step->low),
                                figure_text(step->high)));
  if (parts.empty()) return "";
  return fmt::format("Predicted for {}, not measured: {}.", size_text(curve, estimate.size),
                     core::join(parts, ", and "));
}

draw::Table estimate_table(const Curve& curve, const ResourceEstimate& estimate, const AnalysisOptions& analysis,
                           const ProposalOptions& options) {
  if (is_of_times(curve)) return work_estimate_table(curve, estimate, analysis, options);
  const Point& point = *estimate.measured_at;
  draw::Table table{.id = "estimate-" + curve.id, .title = "Resource estimate: " + curve.name};
  table.caption = hours_of(curve) +
                  " = N x (budget / X(N) / 3600) x (1 + slow steps) x (1 + pauses) x (1 + restarts) + jobs x N x "
                  "start-up + tests; every factor with its source.";
  if (is_one_machine(curve))
    table.caption +=
        " N is 1: the ranks of every size shared the cores of one machine. Sizes are its ranks, so --job-nodes is not "
        "counted.";
  else if (curve.is_by_devices)
    table.caption +=
        " Sizes are devices, since all runs are of one node or do not tell their nodes: --job-nodes and "
        "--sweep-node-hours are not counted.";
  table.columns = {text_column("item", "item"), column("value", "value"), text_column("unit", "unit"),
                   text_column("source", "source")};
  const AddRow add = [&](std::string item, const draw::Cell& value, std::string unit, std::string source) {
    table.rows.push_back({text_cell(std::move(item)), value, text_cell(std::move(unit)), text_cell(std::move(source))});
  };
  const bool is_extrapolated = !estimate.kept_source.empty();
  const std::string measured =
      fmt::format("{} at {}",
                  point.is_of_table ? core::counted(point.runs.size(), "row") + " of the table"
                                    : "median step over " + core::counted(point.runs.size(), "run"),
                  size_text(curve, point.size));
  add("job size", count_cell(estimate.size), unit_of(curve), size_source(estimate));
  add("work", figure_cell(budget_of(point, analysis), 3), is_token_task(point) ? "tokens" : point.setup.sample_unit,
      work_source(point, analysis));
  add("rate", figure_cell(estimate.rate_per_s), is_token_task(point) ? "tokens/s" : rate_unit(point),
      is_extrapolated          ? estimate.kept_source
      : estimate.is_prediction ? measured + ", the same rate per node assumed"
                               : measured);
  if (is_extrapolated)
    add("rate, optimistic", figure_cell(estimate.optimistic_rate_per_s),
        is_token_task(point) ? "tokens/s" : rate_unit(point),
        measured + ", the same rate per node assumed: no loss beyond the evidence");
  add_predicted_rows(curve, estimate, add);
  if (std::isfinite(point.mfu))
    add("model FLOPs utilisation", percent_cell(point.mfu), "%",
        fmt::format("{} at {}; peak: {}; FLOPs: {}", figure_text(point.tflops_per_device, 3) + " TFLOP/s per device",
                    size_text(curve, point.size), point.peak_text, point.setup.flops_formula));
  else if (std::isfinite(point.logged_mfu))
    add("model FLOPs utilisation", percent_cell(point.logged_mfu), "%",
        fmt::format("{} TFLOP/s per device at {}, printed by the program by its own count of FLOPs; peak: {}",
                    figure_text(point.logged_tflops_per_device, 3), size_text(curve, point.size), point.peak_text));
  add("pure training", figure_cell(estimate.node_hours), hours_of(curve),
      fmt::format("{} days", figure_text(estimate.days, 3)));
  add("slow steps", fixed_cell(100 * estimate.slow_share, 2), "%", estimate.slow_source);
  add("pauses between steps",
      estimate.is_pause_known ? fixed_cell(100 * estimate.pause_share, 2) : missing_cell("not measured"), "%",
      estimate.pause_source);
  add("restarts", fixed_cell(100 * estimate.restart_share, 2), "%", estimate.restart_source);
  if (std::isfinite(estimate.startup_s))
    add("start-up of a job", figure_cell(estimate.startup_s, 3), "s",
        fmt::format("measured: to the first step, median of the runs at {}{}", size_text(curve, point.size),
                    startup_doubt(estimate, options)));
  else
    add("start-up of a job", missing_cell("no record tells it"), "s", "not measured, and not in the total");
  if (estimate.num_jobs > 0)
    add("jobs", figure_cell(estimate.num_jobs, 3), "jobs",
        fmt::format("of {:g} h each, given with --job-hours", *options.job_hours));
  add("scaling tests and tuning", figure_cell(is_in_device_hours(curve) ? 0 : options.sweep_node_hours),
      hours_of(curve),
      options.sweep_node_hours <= 0 ? "none"
      : is_in_device_hours(curve)   ? "given in node-hours: not counted"
                                    : "given with --sweep-node-hours");
  add("total", figure_cell(estimate.total_node_hours), hours_of(curve), total_source(estimate));
  add_billed_rows(curve, estimate, analysis, add);
  if (is_extrapolated)
    add("total, optimistic", figure_cell(estimate.optimistic_total_node_hours), hours_of(curve),
        "if the rate per node did not fall any further");
  if (estimate.steps_of_pauses > 0) table.notes.push_back(pause_note(point, estimate.steps_of_pauses));
  if (point.energy) {
    const bool is_tokens = is_token_task(point);
    const double per_sample = point.energy->joules / point.energy->samples;
    const double joules = is_tokens ? per_sample * point.samples_per_step / point.tokens_per_step : per_sample;
    add("energy of the training", figure_cell(joules * budget_of(point, analysis) / 3.6e6, 3), "kWh",
        fmt::format("{} J per {}, meters: {}", figure_text(joules, 3), is_tokens ? "token" : "sample",
                    point.energy->scope));
  }
  return table;
}

}  // namespace lockstep::analysis
