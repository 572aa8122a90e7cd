#include "analysis/proposal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "analysis/cells.h"
#include "analysis/charts.h"
#include "analysis/charts_runs.h"
#include "analysis/document.h"
#include "analysis/estimate_table.h"
#include "analysis/json.h"
#include "analysis/tables.h"
#include "analysis/tables_runs.h"
#include "analysis/text.h"
#include "analysis/work_times.h"
#include "core/counted.h"
#include "core/strings.h"
#include "stats/statistics.h"

namespace lockstep::analysis {
namespace {
using Kind = draw::Paragraph::Kind;

/// The size itself, else the next larger measured one (its efficiency is the lower), else the largest.
const Point* nearest_point(const Curve& curve, int64_t size) {
  for (const Point& point : curve.points)
    if (point.size >= size) return &point;
  return &curve.points.back();
}

/// What a ratio of times adds, never below 0; NaN: unknown.
double lost_share(double ratio) { return std::isfinite(ratio) ? std::max(0.0, ratio - 1) : NAN; }

double rate_of(const Point& point) { return is_token_task(point) ? point.tokens_per_s : point.samples_per_s.value; }

/// Of a size that was not measured what is predicted. Beyond the largest its rate is that, else the rate per node goes
/// on as it did between the last two sizes, and never improves.
void fill_extrapolation(const Curve& curve, const ProposalOptions& options, ResourceEstimate& estimate) {
  if (!estimate.is_prediction) return;
  const auto kept = options.predict_kept_rate ? options.predict_kept_rate(curve, estimate.size) : std::nullopt;
  if (kept) {
    const double largest = curve.points.back().efficiency.value;
    if (std::isfinite(largest))
      estimate.efficiency = PredictedNumber{largest * kept->low, largest * kept->median, largest * kept->high};
    estimate.step_s = kept->step_s;
  }
  if (estimate.size <= curve.points.back().size) return;
  estimate.predicted = kept;
  if (estimate.predicted) {
    estimate.kept = estimate.predicted->median;
    estimate.kept_source = estimate.predicted->source;
    return;
  }
  if (curve.points.size() < 2) {
    estimate.kept = NAN;
    estimate.kept_source =
        "extrapolated, not measured: one size only was measured, so the rate per node is taken without any loss";
    return;
  }
  const Point &last = curve.points.back(), &before = curve.points[curve.points.size() - 2];
  const double sizes = static_cast<double>(last.size) / static_cast<double>(before.size);
  const double kept_per_doubling =
      std::min(1.0, std::pow(rate_of(last) / rate_of(before) / sizes, 1 / std::log2(sizes)));
  estimate.kept =
      std::pow(kept_per_doubling, std::log2(static_cast<double>(estimate.size) / static_cast<double>(last.size)));
  estimate.kept_source =
      fmt::format("extrapolated, not measured: each doubling keeps {:.1f} % of the rate per node, as from {} to {}",
                  100 * kept_per_doubling, size_text(curve, before.size), size_text(curve, last.size));
}

void fill_factors(const Curve& curve, const ProposalOptions& options, ResourceEstimate& estimate) {
  const Point& point = *estimate.measured_at;
  estimate.restart_share = options.restart_share.value_or(0) / 100;
  estimate.restart_source = options.restart_share ? "given with --restart-share" : "none allowed for";
  if (point.work_time) {  // which hold all of this
    estimate.slow_source = estimate.pause_source = "in the times of the table, which are of the whole work";
    return;
  }
  estimate.slow_share = lost_share(point.slow_ratio);
  constexpr double kLess = 0.995;  // what is less is told
  const bool has_untold = point.tells_some_steps && point.slow_ratio * kLess > 1;
  estimate.slow_source =
      fmt::format("measured: total step time over that of median steps, in the runs at {}{}",
                  size_text(curve, point.size), has_untold ? " (or short pauses: not every step's time is told)" : "");
  if (point.slow_ratio < (point.is_sample_slower ? 1 : kLess)) {
    estimate.slow_share = point.slow_ratio - 1;
    const std::string where = "in the runs at " + size_text(curve, point.size);
    estimate.slow_source =
        "measured: " + (point.is_sample_slower
                            ? "by the wall clock all steps " + where + " take less than those that their logs tell"
                            : where + " steps take less on average than the median one");
  }
  if (!std::isfinite(estimate.slow_share)) {
    estimate.slow_share = 0;
    estimate.slow_source = "not measured";
  }
  if (options.eval_share || options.checkpoint_share) {
    estimate.pause_share = (options.eval_share.value_or(0) + options.checkpoint_share.value_or(0)) / 100;
    estimate.pause_source = fmt::format("given: evaluation {:g} %, checkpoints {:g} %", options.eval_share.value_or(0),
                                        options.checkpoint_share.value_or(0));
  } else {
    estimate.pause_share = lost_share(point.pause_ratio);
    estimate.has_few_pauses = !point.are_pauses_measured;
    constexpr const char* kNoMeasurement =
        "what evaluations and checkpoints cost is not measured; give --eval-share and --checkpoint-share";
    if (point.are_pauses_measured)
      estimate.pause_source =
          fmt::format("measured: wall clock between steps over step time, {} pauses in the runs at {}{}",
                      point.num_pauses, size_text(curve, point.size),
                      point.are_pauses_doubtful ? " (or slow steps: not every step's time is told)" : "");
    else
      estimate.pause_source = fmt::format("{} in the {} measured at {}: {}",
                                          point.num_pauses == 0   ? "no pause"
                                          : point.num_pauses == 1 ? "one pause"
                                                                  : "one pause or none in each run",
                                          core::counted(static_cast<size_t>(point.num_window_steps), "step"),
                                          size_text(curve, point.size), kNoMeasurement);
    if (!std::isfinite(estimate.pause_share)) {
      estimate.pause_share = 0;
      estimate.is_pause_known = estimate.has_few_pauses = false;
      estimate.pause_source = fmt::format(
          "not measured: {}; evaluations, checkpoints and other time between steps are "
          "not in the total",
          point.is_of_table ? "a table of results tells no times of day"
                            : "the logs tell no times of day that fit the step times");
    }
  }
}

/// Seconds to the first step, the median over the runs of a size; NaN where no record tells.
double startup_of(const Point& point, const std::vector<RunSummary>& runs) {
  std::vector<double> seconds;
  for (const size_t index : point.runs)
    for (const record::StartupTimes& times : runs[index].startup) {
      double sum_ms = 0;
      for (const auto& [phase, ms] : times.phases_ms) sum_ms += ms;
      seconds.push_back(sum_ms / 1e3);
    }
  return seconds.empty() ? NAN : stats::median(seconds);
}

/// Jobs of a given wall time, each of which starts up before it trains.
void fill_startup(const ProposalOptions& options, double training_hours, ResourceEstimate& estimate) {
  const double startup_hours = estimate.startup_s / 3600;
  if (!options.job_hours || !std::isfinite(startup_hours) || !(startup_hours < *options.job_hours)) return;
  estimate.num_jobs = std::ceil(training_hours / (*options.job_hours - startup_hours));
}

std::optional<ResourceEstimate> estimate_at(const Curve& curve, const Analysis& analysis,
                                            const ProposalOptions& options) {
  if (curve.points.empty() || !curve.base) return std::nullopt;
  const Point* chosen = recommended_point(curve, analysis.options.efficiency_target);
  ResourceEstimate estimate;
  estimate.size = options.job_size    ? *options.job_size
                  : chosen != nullptr ? chosen->size
                                      : curve.points[*curve.base].size;
  estimate.measured_at = nearest_point(curve, estimate.size);
  const Point& point = *estimate.measured_at;
  estimate.is_prediction = point.size != estimate.size;
  const double nodes = static_cast<double>(estimate.size);
  fill_extrapolation(curve, options, estimate);
  estimate.optimistic_rate_per_s = rate_of(point) * nodes / static_cast<double>(point.size);
  if (!std::isfinite(estimate.optimistic_rate_per_s) || (point.work_time && point.work_time->unit_s == 0))
    return std::nullopt;
  estimate.rate_per_s = estimate.optimistic_rate_per_s * (std::isfinite(estimate.kept) ? estimate.kept : 1);
  const bool has_growing_work = point.work_time && point.work_time->grows;
  const double work =
      budget_of(point, analysis.options) * (has_growing_work ? nodes / static_cast<double>(point.size) : 1);
  const double hours = work / estimate.rate_per_s / 3600;
  estimate.days = hours / 24;
  estimate.node_hours = (is_one_machine(curve) ? 1 : nodes) * hours;
  fill_factors(curve, options, estimate);
  const double factors = (1 + estimate.slow_share) * (1 + estimate.pause_share) * (1 + estimate.restart_share),
               training = estimate.node_hours * factors;
  if (!options.eval_share && !options.checkpoint_share && point.are_pauses_measured)
    for (const size_t index : point.runs)
      if (const RunSummary& run = analysis.runs[index]; run.num_pauses >= 2 && std::isfinite(run.pause_ratio))
        estimate.steps_of_pauses += run.num_window_steps;
  estimate.startup_s = startup_of(point, analysis.runs);
  fill_startup(options, hours * factors, estimate);
  const double startup =
      estimate.num_jobs > 0 ? estimate.num_jobs * estimate.startup_s / 3600 * (is_one_machine(curve) ? 1 : nodes) : 0;
  estimate.total_node_hours = training + startup + options.sweep_node_hours;
  const auto total_at = [&](double kept) {
    return training * estimate.rate_per_s / (estimate.optimistic_rate_per_s * kept) + startup +
           options.sweep_node_hours;
  };
  estimate.optimistic_total_node_hours = total_at(1);
  if (estimate.predicted) {
    estimate.low_total_node_hours = total_at(estimate.predicted->high);
    estimate.high_total_node_hours = total_at(estimate.predicted->low);
  }
  return estimate;
}

draw::Table alternatives_table(const Curve& curve, const Analysis& analysis, const ProposalOptions& options) {
  draw::Table table{.id = "alternatives-" + curve.id,
                    .title = "Alternatives: " + curve.name,
                    .caption = "The same work at every measured size and the one applied for, with the same factors."};
  const bool has_times = is_of_times(curve);  // of runs that mostly take less than a day
  if (has_times && curve.kind == ScalingKind::kWeak)
    table.caption = "As many runs at every measured size and the one applied for; their work grows with the size.";
  table.columns = {column(unit_of(curve), unit_of(curve)),
                   has_times ? column("hours", "hours") : column("days", "days"),
                   column(hours_of(curve), is_in_device_hours(curve) ? "device_hours" : "node_hours"),
                   column("efficiency (%)", "efficiency_pct")};
  const auto billed = curve.points.empty() ? std::nullopt : billed_per_hour(curve, curve.points.front());
  if (billed) table.columns.insert(table.columns.begin() + 3, column(billed->name, "billed_hours"));
  std::map<int64_t, const Point*> sizes;
  if (options.job_size && !curve.is_by_devices) sizes[*options.job_size] = nullptr;
  for (const Point& point : curve.points) sizes[point.size] = &point;
  for (const auto& [size, point] : sizes) {
    ProposalOptions at = options;
    at.job_size = size;
    if (is_in_device_hours(curve)) at.sweep_node_hours = 0;
    const auto estimate = estimate_at(curve, analysis, at);
    if (!estimate) continue;
    std::vector<draw::Cell> row = {count_cell(size),
                                   figure_cell((has_times ? 24 : 1) * estimate->days * (1 + estimate->slow_share) *
                                               (1 + estimate->pause_share) * (1 + estimate->restart_share)),
                                   figure_cell(estimate->total_node_hours)};
    if (billed) {
      const auto own = billed_per_hour(curve, *estimate->measured_at);
      row.push_back(own ? figure_cell(own->count * estimate->total_node_hours) : draw::Cell{});
    }
    row.push_back(point != nullptr       ? percent_cell(point->efficiency)
                  : estimate->efficiency ? predicted_cell(*estimate->efficiency, 100, 1)
                                         : missing_cell("not measured: a prediction"));
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// Two paragraphs for the application's text.
std::vector<std::string> proposal_text(const Curve& curve, const std::optional<ResourceEstimate>& estimate,
                                       const Analysis& analysis) {
  std::vector<std::string> texts;
  size_t num_runs = 0, num_jobs = 0;
  bool has_all_jobs = true;  // told by name
  int64_t num_steps = 0, num_told = 0;
  for (const Point& point : curve.points) {
    num_runs += point.runs.size();
    num_jobs += point.num_allocations.value_or(0);
    for (const size_t index : point.runs) has_all_jobs = has_all_jobs && !analysis.runs[index].allocation.empty();
    num_steps += point.num_window_steps, num_told += point.num_steps;
  }
  const record::RunSetup& setup = curve.points.front().setup;
  const std::string jobs = has_all_jobs ? " of " + core::counted(num_jobs, "job") : " (how many jobs is not known)";
  std::string first =
      curve.points.front().is_of_table
          ? fmt::format(
                "Scaling of {} is taken from {} of a table of results, which does not tell how they were measured.",
                curve.name, core::counted(num_runs, "row"))
          : fmt::format("Scaling of {} was measured {}in {}{}, {} after warm-up in all{}.", curve.name,
                        setup.device.empty() ? "" : fmt::format("on {} ", setup.device), core::counted(num_runs, "run"),
                        jobs, core::counted(static_cast<size_t>(num_steps), "optimiser step"),
                        num_told < num_steps ? fmt::format(", of which the logs tell the time of {}", num_told) : "");
  if (setup.is_synthetic)
    first += *setup.is_synthetic
                 ? " The input was synthetic: the cost of reading and decoding data is not in the numbers."
                 : " The input was real data.";
  texts.push_back(first + " " + core::join(conclusions_of(curve, analysis.options), " "));
  std::string second = core::join(limits_of(curve), " ");
  if (estimate && is_of_times(curve))
    second +=
        fmt::format("{}For {} at {} the estimate is {} {} in all: {} of computing and {:.1f} % for restarts ({}).",
                    second.empty() ? "" : " ", work_text(*estimate->measured_at, analysis.options),
                    size_text(curve, estimate->size), figure_text(estimate->total_node_hours, 4), hours_of(curve),
                    figure_text(estimate->node_hours, 4), 100 * estimate->restart_share, estimate->restart_source);
  if (estimate) {
    const Point& point = *estimate->measured_at;
    if (!is_of_times(curve))
      second += fmt::format(
          "{}For {} at {} the estimate is {} {} in all: {} of pure training, {:.1f} % {}, {} for pauses ({}), {:.1f} % "
          "for "
          "restarts ({}).",
          second.empty() ? "" : " ", work_text(point, analysis.options), size_text(curve, estimate->size),
          figure_text(estimate->total_node_hours, 4), hours_of(curve), figure_text(estimate->node_hours, 4),
          100 * std::abs(estimate->slow_share),
          estimate->slow_share < 0 ? "less for steps faster than the median one" : "for slow steps",
          estimate->is_pause_known ? fmt::format("{:.1f} %", 100 * estimate->pause_share) : "nothing",
          estimate->pause_source, 100 * estimate->restart_share, estimate->restart_source);
    if (estimate->predicted)
      second +=
          fmt::format(" The 90 % interval of this is {} to {} {}.", figure_text(estimate->low_total_node_hours, 4),
                      figure_text(estimate->high_total_node_hours, 4), hours_of(curve));
    if (const std::string text = predicted_size_text(curve, *estimate); !text.empty()) second += " " + text;
    if (!estimate->kept_source.empty())
      second += fmt::format(" This size is {}; with the rate per node of {} kept it would be {} {}.",
                            estimate->kept_source, size_text(curve, point.size),
                            figure_text(estimate->optimistic_total_node_hours, 4), hours_of(curve));
  }
  texts.push_back(second);
  return texts;
}

draw::Section curve_section(const Curve& curve, const Analysis& analysis, const ProposalOptions& options) {
  draw::Section section{.id = curve.id, .title = curve.name};
  const auto estimate = estimate_resources(curve, analysis, options);
  std::vector<std::string> texts = proposal_text(curve, estimate, analysis);
  std::erase(texts, "");
  add_text(section, texts);
  if (estimate && estimate->is_prediction)
    add_text(section,
             {fmt::format("M15 beyond-evidence: {} was not measured; the estimate is {}. Measure that size, or ask for "
                          "no more than what was measured.",
                          size_text(curve, estimate->size),
                          estimate->kept_source.empty() ? fmt::format("a prediction from the rate per node of {}",
                                                                      size_text(curve, estimate->measured_at->size))
                                                        : estimate->kept_source)},
             Kind::kWarning);
  add_block(section, efficiency_charts({curve}, analysis.options));
  add_block(section, scaling_table(curve));
  add_block(section, throughput_charts({curve}));
  if (is_of_times(curve)) {
    add_block(section, speedup_charts({curve}));
    add_block(section, work_time_charts({curve}));
  }
  add_block(section, cdf_charts(curve, analysis.runs));
  if (auto chart = breakdown_chart(curve)) add_block(section, std::vector<draw::Chart>{*chart});
  if (!estimate) add_text(section, {"No resource estimate: " + missing_estimate(curve) + "."}, Kind::kWarning);
  if (estimate) add_block(section, estimate_table(curve, *estimate, analysis.options, options));
  add_block(section, alternatives_table(curve, analysis, options));
  return section;
}

/// Chart ids must differ between sections of one page.
void make_ids_unique(draw::Document& document) {
  for (draw::Section& section : document.sections)
    for (draw::Block& block : section.blocks)
      if (auto* chart = std::get_if<draw::Chart>(&block); chart != nullptr && !core::ends_with(chart->id, section.id) &&
                                                          chart->id.find(section.id) == std::string::npos)
        chart->id += "-" + section.id;
}
}  // namespace

std::optional<ResourceEstimate> estimate_resources(const Curve& curve, const Analysis& analysis,
                                                   const ProposalOptions& options) {
  ProposalOptions usable = options;
  if (curve.is_by_devices) usable.job_size.reset();  // given in nodes
  if (is_in_device_hours(curve)) usable.sweep_node_hours = 0;
  return estimate_at(curve, analysis, usable);
}

std::string missing_estimate(const Curve& curve) {
  if (curve.points.empty()) return "no size was measured";
  if (!curve.base) return curve.base_reason;
  if (is_of_times(curve))
    return "the times of the table name no unit; call the column walltime_s, walltime_min or walltime_h";
  return "the samples of a step are unknown, and with them the rate; give --global-batch";
}

std::vector<std::string> missing_for_proposal(const Analysis& analysis, const ProposalOptions& options) {
  std::set<std::string> missing;
  if (!options.restart_share)
    missing.insert("a margin for restarts (the proposal allows for none): give --restart-share");
  const bool has_startup = std::any_of(analysis.runs.begin(), analysis.runs.end(),
                                       [](const RunSummary& run) { return !run.startup.empty(); });
  if (has_startup && !options.job_hours)
    missing.insert("the wall time of a job (its start-up is not in the total): give --job-hours");
  for (const Curve& curve : analysis.curves)
    if (curve.is_by_devices && options.job_size && !curve.shares_cores)
      missing.insert(
          fmt::format("nodes of the {} of {} (its sizes are devices, so --job-nodes {} does not apply): {}",
                      is_of_table(curve) ? "rows" : "runs", curve.name, *options.job_size,
                      is_of_table(curve) ? "add a column nodes beside the devices" : "give --devices-per-node"));
  const bool lacks_pauses = std::any_of(analysis.curves.begin(), analysis.curves.end(), [&](const Curve& curve) {
    const auto estimate = estimate_resources(curve, analysis, options);
    return estimate && !estimate->is_pause_known;
  });
  if (lacks_pauses)
    missing.insert(
        "the time of evaluations and checkpoints (no clock tells it, and the proposal has none of it): give "
        "--eval-share and --checkpoint-share");
  const bool has_few_pauses = std::any_of(analysis.curves.begin(), analysis.curves.end(), [&](const Curve& curve) {
    const auto estimate = estimate_resources(curve, analysis, options);
    return estimate && estimate->has_few_pauses;
  });
  if (has_few_pauses)
    missing.insert(
        "the time of evaluations and checkpoints (fewer than two pauses were measured): give --eval-share and "
        "--checkpoint-share");
  for (const Curve& curve : analysis.curves)
    for (const Point& point : curve.points)
      if (!is_work_given(point, analysis.options))
        missing.insert(fmt::format("the budget (the proposal takes the default, {}): give --budget-{}",
                                   work_text(point, analysis.options),
                                   point.work_time        ? "runs"
                                   : is_token_task(point) ? "tokens"
                                                          : "samples"));
  if (analysis.options.price_per_node_hour && analysis.options.currency.empty())
    missing.insert("the currency of the price: give --currency, for example EUR");
  return {missing.begin(), missing.end()};
}

std::vector<std::string> predicted_sizes(const Analysis& analysis, const ProposalOptions& options) {
  std::vector<std::string> texts;
  for (const Curve& curve : analysis.curves)
    if (const auto estimate = estimate_resources(curve, analysis, options))
      if (const std::string text = predicted_size_text(curve, *estimate); !text.empty())
        texts.push_back(curve.name + ": " + text);
  return texts;
}

draw::Document make_proposal(const Analysis& analysis, const ProposalOptions& options) {
  draw::Document document{.title = "Evidence for an application for computing time", .subtitle = {}};
  const bool has_rows = std::all_of(analysis.curves.begin(), analysis.curves.end(), is_of_table);
  document.subtitle = fmt::format("{} in {}", core::counted(analysis.runs.size(), has_rows ? "row" : "run"),
                                  core::counted(analysis.curves.size(), "configuration"));
  for (const Curve& curve : analysis.curves) document.sections.push_back(curve_section(curve, analysis, options));
  draw::Section method{.id = "method", .title = "Method and reproduction"};
  add_text(method, method_of(analysis));
  std::set<std::string> commands;
  for (const RunSummary& run : analysis.runs)
    if (!run.command.empty()) commands.insert(run.command);
  if (!commands.empty()) add_text(method, {"Commands:"});
  add_text(method, {commands.begin(), commands.end()}, Kind::kCode);
  if (!options.report_command.empty()) {
    add_text(method, {fmt::format("This report, by lockstep {}:", options.version)});
    add_text(method, {options.report_command}, Kind::kCode);
  }
  add_block(method, manifest_table(analysis));
  add_block(method, run_table(analysis));
  document.sections.push_back(std::move(method));
  draw::Section checks{.id = "checks", .title = "Checks and what was left out"};
  add_block(checks, check_table(analysis));
  add_block(checks, left_out_table(analysis));
  add_block(checks, problem_table(analysis));
  if (!checks.blocks.empty()) document.sections.push_back(std::move(checks));
  make_ids_unique(document);
  document.data_json = analysis_json(analysis);
  return document;
}

}  // namespace lockstep::analysis
