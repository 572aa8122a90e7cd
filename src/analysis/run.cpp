#include "analysis/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/megatron_flops.h"
#include "analysis/wall_clock.h"
#include "config/flops.h"
#include "config/model_names.h"
#include "logs/logs.h"
#include "record/measured_steps.h"
#include "record/step_columns.h"
#include "stats/statistics.h"

namespace lockstep::analysis {
namespace {
constexpr size_t kMaxTracePoints = 400;

using record::num_steps_of;
using Rows = record::UsableRows;

std::string unusable_reason(const record::RunData& run, const Rows& rows) {
  const std::string end = run.message.empty() ? "" : fmt::format(": {}", run.message);
  if (run.format == logs::to_text(logs::LogFormat::kBench) && !run.message.empty()) return run.message;
  if (rows.num_unusable > 0) return fmt::format("none of its {} rows has a step time above zero", rows.num_unusable);
  if (run.only_evaluated) return "it was started to evaluate, and trained nothing" + end;
  if (run.state == "failed" || run.state == "died")
    return fmt::format("it {} before its first recorded step{}", run.state, end);
  if (run.state == "running") return "it has not recorded a step yet";
  return fmt::format("it holds no step{}", end);
}

void fill_work(const record::RunData& run, std::span<const size_t> rows, RunSummary& summary) {
  summary.tokens_per_step = record::median_of_rows(run.steps.tokens, rows);
  if (!std::isfinite(summary.tokens_per_step) && run.setup.sequence_length)
    summary.tokens_per_step = summary.samples_per_step * static_cast<double>(*run.setup.sequence_length);
  summary.logged_tflops_per_device = record::median_of_rows(run.steps.logged_tflops_per_device, rows);
}

bool is_sampled(const Rows& rows) { return rows.covered_per_row > rows.steps_per_row; }

/// Steps that row i stands for in the window: the first one only for itself, the others for all since the row before.
double steps_of_row(const Rows& rows, size_t first, size_t i) {
  return i == first ? rows.num_steps[i] : rows.covered_steps[i];
}

/// What these steps took by the step times: a row stands for all of them, whether it is their mean or one of them, but
/// for those that are told beside it.
double step_seconds(const Rows& rows, size_t first, size_t i) {
  const bool has_starts = i != first;
  const double steps = steps_of_row(rows, first, i), starts = has_starts ? rows.epoch_starts[i] : 0;
  return (rows.step_ms[i] * (steps - starts) + (has_starts ? rows.epoch_starts_ms[i] : 0)) / 1e3;
}

/// Wall clock of the window up to the end of its last evaluation. Where the log tells one step of several it holds, and
/// what is no pause in it is time of steps.
void fill_billed(const record::RunData& run, const record::MeasuredSteps& steps, double told_s, RunSummary& summary) {
  const bool is_sample = is_sampled(steps.rows);
  const double window_s = window_seconds(run, steps);
  constexpr double kLeastWallShare = 0.5, kAgreedWallShare = 0.95;  // of the step times; stamps may be whole seconds
  if (window_s < kLeastWallShare * (is_sample ? told_s : summary.measured_s)) {
    summary.problems.push_back(fmt::format(
        "its times of day tell {:.1f} s for steps that take {:.1f} s by their own times: they are not used, and the "
        "time between steps is not known",
        window_s, summary.measured_s));
    return;
  }
  if (!std::isfinite(window_s)) return;
  if (is_sample && window_s < kAgreedWallShare * summary.measured_s)
    summary.problems.push_back(fmt::format(
        "the steps that the log tells take {:.1f} % longer than the wall clock leaves for all steps: those between the "
        "lines are faster, and hours are those of the wall clock",
        100 * (summary.measured_s / window_s - 1)));
  const WallClock clock = read_wall_clock(run, steps);
  const double by_times_s = summary.measured_s + clock.seconds_behind,
               by_clock_s = clock.seconds - clock.pauses.seconds;
  summary.tells_some_steps = is_sample;
  summary.is_sample_slower = is_sample && by_clock_s < by_times_s;
  summary.measured_s = is_sample || run.rounding_of_sums > 0 ? by_clock_s : by_times_s;
  summary.measured_samples += clock.steps_behind * summary.samples_per_step;
  summary.num_pauses = clock.pauses.count;
  summary.billed_samples = summary.measured_samples;
  summary.billed_s = std::max(summary.measured_s, clock.seconds);
  const double usual_s = summary.billed_s - clock.pauses.seconds + clock.pauses.seconds_in(clock.num_steps);
  summary.pause_ratio = std::max(1.0, usual_s / summary.measured_s);
  summary.are_pauses_doubtful = clock.are_pauses_doubtful;
}

/// Seconds, samples and data wait of the measured rows; time on the wall where steps carry their clock.
void fill_window(const record::RunData& run, const record::MeasuredSteps& measured, RunSummary& summary) {
  const Rows& rows = measured.rows;
  const size_t first = measured.first;
  double wait_ms = 0, wait_steps_ms = 0, told_s = 0;
  bool has_wait = false;
  for (size_t i = first; i < rows.index.size(); ++i) {
    const size_t row = rows.index[i];
    const double steps = steps_of_row(rows, first, i), samples = record::value_or_nan(run.steps.samples, row);
    summary.num_window_steps += static_cast<int64_t>(steps);
    summary.measured_s += step_seconds(rows, first, i);
    told_s += rows.step_ms[i] * rows.num_steps[i] / 1e3;
    wait_steps_ms += rows.step_ms[i] * steps;
    summary.measured_samples += (std::isfinite(samples) ? samples : summary.samples_per_step) * steps;
    if (const double wait = record::value_or_nan(run.steps.data_wait_ms, row); std::isfinite(wait)) {
      wait_ms += wait * steps;
      has_wait = true;
    }
  }
  summary.data_wait_share = has_wait && wait_steps_ms > 0 ? wait_ms / wait_steps_ms : record::kUnknown;
  summary.billed_samples = summary.measured_samples;
  summary.billed_s = record::kUnknown;
  fill_billed(run, measured, told_s, summary);
}

void fill_phases(const record::RunData& run, std::span<const size_t> rows, RunSummary& summary) {
  for (const auto& [phase, column] : run.steps.phases_ms) {
    double sum = 0, steps = 0;
    for (const size_t row : rows) {
      if (row >= column.size() || !std::isfinite(column[row])) continue;
      sum += column[row] * num_steps_of(run.steps, row);
      steps += num_steps_of(run.steps, row);
    }
    if (steps > 0) summary.phases_ms[phase] = sum / steps;
  }
}

/// Block medians so that the picture keeps its shape, and every outlier itself.
void fill_trace(const record::RunData& run, const Rows& rows, RunSummary& summary) {
  const size_t block = (rows.step_ms.size() + kMaxTracePoints - 1) / kMaxTracePoints;
  std::vector<bool> is_outlier(rows.step_ms.size(), false);
  for (const stats::Outlier& outlier : summary.series->outliers)
    if (outlier.index < is_outlier.size()) is_outlier[outlier.index] = true;
  for (size_t begin = 0; begin < rows.step_ms.size(); begin += block) {
    const size_t end = std::min(begin + block, rows.step_ms.size());
    const std::span<const double> values(rows.step_ms.data() + begin, end - begin);
    double largest = -1;
    size_t largest_at = begin;
    for (size_t i = begin; i < end; ++i)
      if (is_outlier[i] && rows.step_ms[i] > largest) {
        largest = rows.step_ms[i];
        largest_at = i;
      }
    const auto put = [&](size_t i, double ms) {
      const size_t row = rows.index[i];
      summary.trace_step.push_back(row < run.steps.step.size() ? static_cast<double>(run.steps.step[row])
                                                               : static_cast<double>(i));
      summary.trace_ms.push_back(ms);
    };
    put(begin, block == 1 ? rows.step_ms[begin] : stats::median(values));
    if (block > 1 && largest > 0 && largest_at > begin) put(largest_at, largest);
  }
  const size_t warmup = std::min(summary.series->num_warmup_steps, rows.index.size() - 1);
  const size_t row = rows.index[warmup];
  summary.trace_warmup_end =
      row < run.steps.step.size() ? static_cast<double>(run.steps.step[row]) : static_cast<double>(warmup);
}

void fill_network(const record::RunData& run, int64_t first_step, RunSummary& summary) {
  struct Total {
    double bytes = 0, steps = 0;
    double per_step() const { return steps > 0 ? bytes / steps : 0; }
  };
  std::map<std::string, std::pair<Total, Total>> totals;  // received and sent over the steps of all hosts
  const auto add = [](Total& total, double bytes, int64_t num_steps) {
    total.bytes += bytes;
    total.steps += static_cast<double>(num_steps);
  };
  for (const record::SystemInterval* interval : measured_intervals(run, first_step)) {
    for (const auto& [name, bytes] : interval->received_bytes) add(totals[name].first, bytes, interval->num_steps);
    for (const auto& [name, bytes] : interval->sent_bytes) add(totals[name].second, bytes, interval->num_steps);
  }
  for (const auto& [name, total] : totals)
    summary.network_per_step[name] = {.received_bytes = total.first.per_step(), .sent_bytes = total.second.per_step()};
}

/// Of another program's run that tells nothing of its FLOPs but the name of a model that is in our tables. Rows of
/// tables give rates whose sample they do not name; a changed CLIP is not the one of its name.
std::optional<config::FlopCount> flops_by_name(const record::RunData& run) {
  const record::RunSetup& setup = run.setup;
  const bool is_own = run.format == logs::to_text(logs::LogFormat::kLockstep);
  if (is_own || run.format == kTableRow || setup.model.empty()) return std::nullopt;
  if (setup.task == "gpt" || setup.sample_unit == "sequences")
    return config::forward_by_name(setup.model, config::SampleKind::kSequence, setup.sequence_length.value_or(0));
  const bool is_openclip = setup.task.empty() && run.format == logs::to_text(logs::LogFormat::kOpenClip);
  if (setup.task != "clip" && setup.task != "clap" && !is_openclip) return std::nullopt;
  for (const char* changed : {"force_image_size", "force_patch_dropout", "force_context_length"})
    if (const auto option = run.options.find(changed);
        option != run.options.end() && !option->second.empty() && option->second != "None")
      return std::nullopt;
  return config::forward_by_name(setup.model, config::SampleKind::kPair, 0);
}

RunSummary copy_facts(const record::RunData& run, const AnalysisOptions& options) {
  RunSummary summary;
  summary.name = run.name;
  summary.source = run.source;
  summary.format = run.format;
  summary.is_unit_guessed = run.is_unit_guessed;
  summary.setup = run.setup;
  summary.options = run.options;
  if (!summary.setup.forward_gflops_per_sample && run.format == logs::to_text(logs::LogFormat::kMegatron))
    if (const auto count = megatron_flops(run.options)) {
      summary.setup.forward_gflops_per_sample = count->flops / config::kTrainingPasses / 1e9;
      summary.setup.flops_formula = count->formula;
    }
  if (!summary.setup.forward_gflops_per_sample)
    if (const auto count = flops_by_name(run)) {
      summary.setup.forward_gflops_per_sample = count->flops / 1e9;
      summary.setup.flops_formula = "counted by the model's name, " + count->formula;
    }
  if (!options.flops_set.empty()) {
    const auto nominal = config::find_nominal(options.flops_set, run.setup.model);
    if (summary.setup.forward_gflops_per_sample &&
        !run.setup.processed_gflops_per_sample) {  // what the run itself counted stands beside it
      summary.setup.processed_gflops_per_sample = summary.setup.forward_gflops_per_sample;
      summary.setup.processed_formula = summary.setup.flops_formula;
    }
    summary.setup.forward_gflops_per_sample = nominal.forward_gflops;
    summary.setup.flops_formula = fmt::format("3 x nominal {} ({}): {}", nominal.model, nominal.set, nominal.formula);
  }
  if (options.forward_gflops) {
    summary.setup.forward_gflops_per_sample = options.forward_gflops;
    summary.setup.flops_formula = "3 x --fwd-gflops";
  }
  summary.allocation = run.allocation;
  summary.state = run.state;
  summary.message = run.message;
  summary.command = run.command;
  summary.started_s = run.started_s;
  summary.ended_s = run.ended_s;
  summary.num_attempts = run.num_attempts;
  summary.only_evaluated = run.only_evaluated;
  summary.num_rejected_lines = run.num_rejected_lines;
  summary.problems = run.problems;
  summary.software = run.software;
  summary.collectives = run.collectives;
  summary.collective_points = run.collective_points;
  summary.latency_points = run.latency_points;
  summary.startup = run.startup;
  summary.results = run.results;
  if (run.collective_points.empty() && run.latency_points.empty() &&
      run.format != logs::to_text(logs::LogFormat::kBench))
    summary.missing = record::missing_facts(run);
  return summary;
}

/// What is counted over whole attempts, then leaves only the measured one in `run`.
void take_measured_attempt(record::RunData& run, RunSummary& summary) {
  summary.num_steps = record::count_steps(run.steps);
  summary.losses = loss_points(run);
  const auto last =
      std::find_if(run.steps.loss.rbegin(), run.steps.loss.rend(), [](double v) { return std::isfinite(v); });
  if (!summary.losses.empty())
    summary.last_loss = summary.losses.back().loss;
  else if (last != run.steps.loss.rend())
    summary.last_loss = *last;
  const size_t num_rows = run.steps.size();
  const int attempt = record::longest_attempt(run.steps);
  record::keep_attempt(run.steps, attempt);
  if (const auto peaks = run.memory_peaks.find(attempt); peaks != run.memory_peaks.end())
    summary.memory = peaks->second;
  if (const size_t num_other = num_rows - run.steps.size(); num_other > 0)
    summary.problems.push_back(fmt::format(
        "the run was restarted: only its longest attempt was measured, {} rows of other attempts were left out",
        num_other));
  for (size_t row = 0; row < run.steps.size(); ++row) {
    // Records of lockstep always hold a loss; other logs may not print one in each line.
    const double loss = record::value_or_nan(run.steps.loss, row);
    if (std::isinf(loss) || (std::isnan(loss) && run.format == "lockstep")) ++summary.num_nonfinite_losses;
    const int32_t num_skipped = row < run.steps.num_skipped.size() ? run.steps.num_skipped[row] : 0;
    if (num_skipped > 0 && summary.num_skipped_steps == 0) summary.first_skipped_step = run.steps.step[row];
    summary.num_skipped_steps += num_skipped;
  }
}

void fill_notes(const Rows& rows, RunSummary& summary) {
  if (rows.num_unusable > 0)
    summary.problems.push_back(
        fmt::format("{} rows have no step time above zero and were left out", rows.num_unusable));
  if (summary.steps_per_row > 1)
    summary.problems.push_back(fmt::format(
        "the log gives means over {:.0f} steps: percentiles are those of such means and hide single slow steps",
        summary.steps_per_row));
  else if (rows.covered_per_row > 1)
    summary.problems.push_back(fmt::format(
        "the log tells the time of one step in {:.0f}: medians are of these steps, and the time of the steps between "
        "them is taken to be the same",
        rows.covered_per_row));
}
}  // namespace

RunSummary summarise_run(record::RunData run, const AnalysisOptions& options) {
  RunSummary summary = copy_facts(run, options);
  take_measured_attempt(run, summary);
  record::MeasuredSteps steps = record::measure_steps(run, options.warmup_steps);
  const Rows& rows = steps.rows;
  if (rows.index.empty()) {
    summary.unusable = unusable_reason(run, rows);
    summary.samples_per_step = summary.tokens_per_step = summary.data_wait_share = record::kUnknown;
    return summary;
  }
  summary.steps_per_row = rows.steps_per_row;
  summary.series = steps.series;
  summary.num_measured_steps = steps.num_steps;
  summary.samples_per_step = steps.samples_per_step;
  const size_t first = steps.first;
  const std::span<const size_t> measured = std::span(rows.index).subspan(first);
  fill_work(run, measured, summary);
  fill_window(run, steps, summary);
  fill_phases(run, measured, summary);
  fill_trace(run, rows, summary);
  fill_notes(rows, summary);
  summary.distribution = stats::weighted_values(std::span(rows.step_ms).subspan(first));
  if (options.keeps_steps)
    summary.measured_ms.assign(rows.step_ms.begin() + static_cast<ptrdiff_t>(first), rows.step_ms.end());
  summary.epochs = epoch_times(run);
  const int64_t first_step = measured.front() < run.steps.step.size() ? run.steps.step[measured.front()] : 0;
  fill_network(run, first_step, summary);
  summary.ranks = rank_shares(run, first_step, summary.num_rank_intervals);
  summary.skew = rank_skew(run, first_step);
  summary.energy = energy_use(run, first_step, summary.samples_per_step);
  for (const Protocol protocol : options.protocols)
    summary.protocols.push_back(apply_protocol(protocol, run.steps, steps.options));
  return summary;
}

}  // namespace lockstep::analysis
