#include "published/runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "analysis/charts.h"
#include "analysis/work_times.h"
#include "core/error.h"
#include "core/strings.h"
#include "logs/column_names.h"

namespace lockstep::published {
namespace {
/// A count of a table, bounded to what any run has.
int64_t count_of(double value) {
  constexpr double kMost = 1e15;
  return static_cast<int64_t>(std::clamp(value, 0.0, kMost));
}

/// What names the job of a row; "" without such a column.
std::string job_of(const FormulaContext& context, size_t row) {
  for (size_t column = 0; column < context.table.columns.size(); ++column)
    for (const char* name : {"job", "job_id", "jobid", "slurm_job_id"})
      if (core::plain_name(context.table.columns[column]) == name && !is_absent(context.table.rows[row][column]))
        return context.table.rows[row][column];
  return "";
}

record::RunSetup setup_of(const FormulaContext& context, size_t row, const std::string& unit) {
  record::RunSetup setup;
  setup.model = context.has("model") ? context.table.text(row, "model") : context.table.source.stem().string();
  setup.precision = context.has("precision") ? context.table.text(row, "precision") : context.facts.precision;
  if (context.has("system")) setup.system = context.table.text(row, "system");
  for (const auto& [column, values] : context.parting) {
    if (tells_model(column))  // curves over sizes are of one model, but may have other settings that change
      setup.model += fmt::format(", {} {}", context.given_name(column.c_str()), values.at(row));
    else
      setup.tags[column] = values.at(row);
  }
  if (const char* devices = context.device_column()) setup.devices = count_of(context.at(row, devices).value);
  if (context.has("nodes")) setup.nodes = count_of(context.at(row, "nodes").value);
  if (const auto local = local_batch(context, row)) setup.samples_per_device = count_of(local->value);
  if (const auto global = global_batch(context, row)) setup.global_batch = count_of(global->value);
  setup.sample_unit = unit;
  if (unit == "tokens")
    if (const auto length = sequence_length(context, row); length && *length >= 1)
      setup.sequence_length = count_of(*length);
  const TableFacts& facts = context.facts;
  if (unit == "samples") setup.forward_gflops_per_sample = facts.forward_gflops;
  if (setup.forward_gflops_per_sample) setup.flops_formula = "3 x forward, as --fwd-gflops or the table tells";
  if (unit == "tokens" && facts.sequence_flops && facts.sequence_length)
    setup.forward_gflops_per_sample = *facts.sequence_flops / *facts.sequence_length / 3e9;
  if (unit == "TFLOP") setup.forward_gflops_per_sample = 1e3 / 3;  // the unit itself
  if (const auto peak = context.peak(row)) setup.peak_tflops_per_device = *peak;
  setup.peak_source = "as the table says";
  return setup;
}

/// A row as a run without its steps.
record::RunData run_of(const FormulaContext& context, size_t row, const std::string& unit) {
  record::RunData run;
  run.name = context.row_name(row);
  run.source = context.table.source;
  run.format = analysis::kTableRow;
  run.allocation = job_of(context, row);
  run.setup = setup_of(context, row, unit);
  return run;
}

/// A row as a run of one step of `step_ms` with so many samples; `printed`: the value with the range of its digits.
analysis::RunSummary summary_of(record::RunData run, double step_ms, double samples, const Printed& printed,
                                const FormulaContext& context, const analysis::AnalysisOptions& options) {
  analysis::AnalysisOptions of_rows = options;
  of_rows.forward_gflops.reset();  // in the facts of the table
  of_rows.flops_set.clear();
  run.steps.step = {0};
  run.steps.num_steps = {1};
  run.steps.step_ms = {step_ms};
  run.steps.samples = {samples};
  if (run.setup.sample_unit == "tokens") run.steps.tokens = run.steps.samples;
  analysis::RunSummary summary = analysis::summarise_run(std::move(run), of_rows);
  const char* devices = context.device_column();
  if (devices != nullptr && std::string_view(devices) == "cores") summary.device_word = "core";
  if (summary.series) {
    summary.series->resolution_ms = step_ms * (printed.high - printed.low) / printed.value;
    summary.series->notes.clear();  // on steps that it does not have
  }
  return summary;
}

/// Do the devices of a table count the processes of a program ("MPI tasks"), which may be cores or devices?
bool counts_ranks(const FormulaContext& context) {
  const char* devices = context.device_column();
  if (devices == nullptr || std::string_view(devices) != "devices") return false;
  const std::string name = core::plain_name(context.given_name(devices));
  return name.find("rank") != std::string::npos || name.find("task") != std::string::npos ||
         name.find("process") != std::string::npos;
}

/// Rows of times without a rate: the one step of a run is the whole work, which in weak scaling is N / N0 of the
/// base's.
std::vector<analysis::RunSummary> times_as_runs(const FormulaContext& context,
                                                const analysis::AnalysisOptions& options) {
  const auto times = times_of(context);
  if (!times) return {};
  const bool is_step = times->column == logs::kStepTimeColumn;
  const double unit_s = is_step ? 1 : context.solution_unit_s;
  const auto grows_at = [&](size_t row) {
    return times->work[row] && times->work[row]->work == TimedWork::kGrowsWithSize;
  };
  bool has_both = false, is_told_apart = false;
  for (size_t row = 0; row < times->work.size(); ++row) {
    has_both = has_both || grows_at(row) != grows_at(0);
    is_told_apart = is_told_apart || (times->work[row] && times->work[row]->is_in_row);
  }
  std::vector<analysis::RunSummary> runs;
  for (size_t row = 0; row < context.table.rows.size(); ++row) {
    const auto& told = times->work[row];
    const bool grows = grows_at(row);
    const Printed time = context.at(row, times->column);
    const std::vector<size_t>& base = context.base_rows(row);
    const char* size = context.size_column();
    const double share =
        grows && !base.empty() ? context.at(row, size).value / context.at(base.front(), size).value : 1;
    record::RunData run = run_of(context, row, is_step ? "steps" : "runs");
    run.setup.samples_per_device.reset(), run.setup.global_batch.reset();
    if (has_both && !is_told_apart) run.setup.tags["scaling"] = grows ? "weak" : "strong";
    analysis::RunSummary summary =
        summary_of(std::move(run), 1e3 * (unit_s > 0 ? unit_s : 1) * time.value, share, time, context, options);
    summary.has_step_time = false;
    if (counts_ranks(context)) summary.device_word = "rank";
    summary.work_time = analysis::WorkTime{.unit_s = unit_s,
                                           .is_step = is_step,
                                           .grows = grows,
                                           .why = !told              ? "one size only"
                                                  : told->is_assumed ? "assumed, since " + told->why
                                                                     : told->why};
    runs.push_back(std::move(summary));
  }
  return runs;
}
}  // namespace

std::vector<analysis::RunSummary> rows_as_runs(const FormulaContext& context,
                                               const analysis::AnalysisOptions& options) {
  const auto rate = rate_of(context);
  if (context.size_column() == nullptr || context.has_contradiction) return {};
  if (!rate) return times_as_runs(context, options);
  std::vector<analysis::RunSummary> runs;
  for (size_t row = 0; row < context.table.rows.size(); ++row) {
    record::RunData run = run_of(context, row, rate->unit);
    const Printed per_s = rate->at(context, row);
    const bool has_batch = rate->unit == "samples" && run.setup.global_batch.value_or(0) > 0;
    const double samples = has_batch ? static_cast<double>(*run.setup.global_batch) : 1,
                 step_ms = 1e3 * samples / per_s.value;
    analysis::RunSummary summary = summary_of(std::move(run), step_ms, samples, per_s, context, options);
    summary.has_step_time = has_batch;
    runs.push_back(std::move(summary));
  }
  return runs;
}

void check_budget(const analysis::Analysis& rows) {
  const analysis::AnalysisOptions& options = rows.options;
  for (const analysis::RunSummary& row : rows.runs) {
    const std::string& unit = row.setup.sample_unit;
    const bool can_count_samples = unit == "samples" || (unit == "tokens" && row.setup.sequence_length);
    const bool is_run = unit == "runs" || unit == "steps",
               is_samples_unread =
                   options.is_samples_budget_given && !options.is_tokens_budget_given && !can_count_samples,
               is_tokens_unread =
                   options.is_tokens_budget_given && !options.is_samples_budget_given && unit != "tokens";
    if (!is_run && options.is_runs_budget_given)
      throw UsageError(
          fmt::format("report: '{}' tells {}/s, which --budget-runs cannot be counted by", row.source.string(), unit),
          unit == "tokens" ? "give --budget-tokens" : "give --budget-samples");
    if (!is_samples_unread && !is_tokens_unread) continue;
    if (is_run)
      throw UsageError(fmt::format("report: '{}' tells times, which --budget-{} cannot be counted by",
                                   row.source.string(), is_samples_unread ? "samples" : "tokens"),
                       "give --budget-runs: how often the work of the table is to be done");
    throw UsageError(fmt::format("report: '{}' tells {}/s, which --budget-{} cannot be counted by", row.source.string(),
                                 unit, is_samples_unread ? "samples" : "tokens"),
                     unit == "tokens"    ? "give --budget-tokens, or add a column seq_len"
                     : unit == "samples" ? "give --budget-samples"
                                         : "a TFLOP is no sample: add a column samples_per_s or tokens_per_s, or "
                                           "global_batch beside step times");
  }
}

std::vector<draw::Chart> row_charts(const analysis::Analysis& rows, const std::string& suffix) {
  std::vector<draw::Chart> charts = analysis::efficiency_charts(rows.curves, rows.options);
  for (auto& more : {analysis::throughput_charts(rows.curves), analysis::work_time_charts(rows.curves),
                     analysis::utilisation_charts(rows.curves), analysis::speedup_charts(rows.curves)})
    charts.insert(charts.end(), more.begin(), more.end());
  for (draw::Chart& chart : charts) chart.id += suffix;
  return charts;
}

std::vector<const analysis::Curve*> curves_with_repeats(const analysis::Analysis& rows) {
  std::vector<const analysis::Curve*> curves;
  for (const analysis::Curve& curve : rows.curves)
    if (std::any_of(curve.points.begin(), curve.points.end(),
                    [](const analysis::Point& point) { return point.runs.size() > 1; }))
      curves.push_back(&curve);
  return curves;
}

}  // namespace lockstep::published
