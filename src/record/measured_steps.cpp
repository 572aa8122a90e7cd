#include "record/measured_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "stats/statistics.h"

namespace lockstep::record {
namespace {
constexpr double kMinWarmupSteps = 10, kMinWarmupS = 30, kMaxWarmupShare = 0.1;

double row_step_ms(const RunData& run, size_t row) {
  const double direct = value_or_nan(run.steps.step_ms, row);
  if (std::isfinite(direct) && direct > 0) return direct;
  double samples = value_or_nan(run.steps.samples, row);
  if (!std::isfinite(samples) && run.setup.global_batch) samples = static_cast<double>(*run.setup.global_batch);
  const double rate = value_or_nan(run.steps.logged_samples_per_s, row);
  return rate > 0 && samples > 0 ? 1e3 * samples / rate : kUnknown;
}

/// Rows that stand for far fewer steps than the others (the first line of an epoch is one step among hundreds) weigh
/// like the others in every figure: they are joined with the row behind them, or the last with the one before, into the
/// mean over the steps of both.
void join_short_rows(UsableRows& rows, std::vector<double> intervals) {
  constexpr double kShort = 0.5;
  UsableRows joined = rows;
  joined.index.clear();
  joined.step_ms.clear();
  double held_ms = 0, held_steps = 0;
  const auto add = [&](double ms, double steps) {
    held_ms += ms * steps;
    held_steps += steps;
  };
  for (size_t row = 0; row < rows.index.size(); ++row) {
    add(rows.step_ms[row], intervals[row]);
    const bool is_last = row + 1 == rows.index.size();
    if (held_steps < kShort * rows.steps_per_row && !is_last) continue;
    if (held_steps < kShort * rows.steps_per_row &&
        !joined.step_ms.empty()) {  // nothing is left to join the last row with
      joined.step_ms.back() =
          (joined.step_ms.back() * rows.steps_per_row + held_ms) / (rows.steps_per_row + held_steps);
      joined.index.back() = rows.index[row];
    } else {
      joined.step_ms.push_back(held_ms / held_steps);
      joined.index.push_back(rows.index[row]);
    }
    held_ms = held_steps = 0;
  }
  rows = std::move(joined);
}

UsableRows usable_rows(const RunData& run) {
  UsableRows rows;
  const int attempt = longest_attempt(run.steps);
  std::vector<double> intervals;
  for (size_t row = 0; row < run.steps.size(); ++row) {
    if (row < run.steps.attempt.size() && run.steps.attempt[row] != attempt) continue;
    const double ms = row_step_ms(run, row);
    if (!std::isfinite(ms) || ms <= 0) {
      ++rows.num_unusable;
      continue;
    }
    rows.index.push_back(row);
    rows.step_ms.push_back(ms);
    intervals.push_back(num_steps_of(run.steps, row));
  }
  if (!intervals.empty()) rows.steps_per_row = stats::median(intervals);
  if (rows.steps_per_row > 1) join_short_rows(rows, std::move(intervals));
  return rows;
}

stats::SeriesOptions series_options(const UsableRows& rows, const std::optional<size_t>& warmup_steps) {
  double total_s = 0;
  for (const double ms : rows.step_ms) total_s += ms * rows.steps_per_row / 1e3;
  stats::SeriesOptions series;
  series.min_warmup_steps = std::max<size_t>(1, static_cast<size_t>(std::ceil(kMinWarmupSteps / rows.steps_per_row)));
  // Rows that stand for several steps hold their mean: the floor in seconds is scaled alike.
  series.min_warmup_s = std::min(kMinWarmupS, total_s * kMaxWarmupShare) / rows.steps_per_row;
  series.warmup_steps = warmup_steps;
  return series;
}
}  // namespace

int longest_attempt(const StepColumns& steps) {
  std::map<int, size_t> rows;
  for (const int attempt : steps.attempt) ++rows[attempt];
  int best = 0;
  for (const auto& [attempt, count] : rows)
    if (!rows.contains(best) || count > rows[best]) best = attempt;
  return best;
}

double num_steps_of(const StepColumns& steps, size_t row) {
  return row < steps.num_steps.size() ? std::max(1, steps.num_steps[row]) : 1;
}

double median_of_rows(const std::vector<double>& column, std::span<const size_t> rows) {
  std::vector<double> values;
  for (const size_t row : rows)
    if (const double value = value_or_nan(column, row); std::isfinite(value) && value > 0) values.push_back(value);
  return values.empty() ? kUnknown : stats::median(values);
}

MeasuredSteps measure_steps(const RunData& run, const std::optional<size_t>& warmup_steps) {
  MeasuredSteps steps{.rows = usable_rows(run)};
  steps.options = series_options(steps.rows, warmup_steps);
  steps.samples_per_step = kUnknown;
  if (steps.rows.index.empty()) return steps;
  steps.series = stats::summarise_series(steps.rows.step_ms, steps.options);
  steps.first = std::min(steps.series->num_warmup_steps, steps.rows.index.size() - 1);
  const auto measured = std::span(steps.rows.index).subspan(steps.first);
  for (const size_t row : measured) steps.num_steps += static_cast<int64_t>(num_steps_of(run.steps, row));
  steps.samples_per_step = median_of_rows(run.steps.samples, measured);
  if (!std::isfinite(steps.samples_per_step) && run.setup.global_batch)
    steps.samples_per_step = static_cast<double>(*run.setup.global_batch);
  return steps;
}

}  // namespace lockstep::record
