#include "record/measured_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "stats/statistics.h"

namespace lockstep::record {
namespace {
constexpr double kMinWarmupSteps = 10, kMinWarmupS = 30, kMaxWarmupShare = 0.1;

/// Rows that stand for far fewer steps than the others (the first line of an epoch is one step among hundreds) weigh
/// like the others in every figure: they are joined with the row behind them, or the last with the one before, into the
/// mean over the steps of both.
void join_short_rows(UsableRows& rows) {
  constexpr double kShort = 0.5;
  const UsableRows single = std::move(rows);
  rows = {.steps_per_row = single.steps_per_row, .num_unusable = single.num_unusable};
  bool is_open = false;  // the last row is still too short
  for (size_t row = 0; row < single.index.size(); ++row) {
    const bool is_short = single.num_steps[row] < kShort * rows.steps_per_row, is_last = row + 1 == single.index.size();
    if (!is_open && !(is_last && is_short && !rows.index.empty())) {
      rows.index.push_back(single.index[row]);
      rows.step_ms.push_back(single.step_ms[row]);
      rows.num_steps.push_back(single.num_steps[row]);
      rows.covered_steps.push_back(single.covered_steps[row]);
    } else {
      const double steps = rows.num_steps.back() + single.num_steps[row];
      rows.step_ms.back() =
          (rows.step_ms.back() * rows.num_steps.back() + single.step_ms[row] * single.num_steps[row]) / steps;
      rows.num_steps.back() = steps;
      rows.covered_steps.back() += single.covered_steps[row];
      rows.index.back() = single.index[row];
    }
    is_open = rows.num_steps.back() < kShort * rows.steps_per_row;
  }
}

/// Where a log tells one step of several, the first step of an epoch counts for itself only: not as a row, but with
/// its time beside the row behind it. Not done where a log tells hardly any others.
void set_epoch_starts_apart(const RunData& run, UsableRows& rows) {
  const UsableRows all = std::move(rows);
  rows = {.steps_per_row = all.steps_per_row, .num_unusable = all.num_unusable};
  double steps = 0, covered = 0, ms = 0;  // of epoch starts since the last row
  for (size_t i = 0; i < all.index.size(); ++i) {
    if (i > 0 && does_begin_epoch(run.steps, all.index[i], all.index[i - 1])) {
      steps += all.num_steps[i], covered += all.covered_steps[i], ms += all.step_ms[i] * all.num_steps[i];
      continue;
    }
    rows.index.push_back(all.index[i]);
    rows.step_ms.push_back(all.step_ms[i]);
    rows.num_steps.push_back(all.num_steps[i]);
    rows.covered_steps.push_back(all.covered_steps[i] + std::exchange(covered, 0));
    rows.epoch_starts.push_back(std::exchange(steps, 0));
    rows.epoch_starts_ms.push_back(std::exchange(ms, 0));
  }
  constexpr double kLeastShare = 0.3;
  if (static_cast<double>(rows.index.size()) < kLeastShare * static_cast<double>(all.index.size())) rows = all;
}

UsableRows usable_rows(const RunData& run) {
  UsableRows rows;
  const int attempt = longest_attempt(run.steps);
  double unusable_steps = 0;  // since the last usable row
  for (size_t row = 0; row < run.steps.size(); ++row) {
    if (row < run.steps.attempt.size() && run.steps.attempt[row] != attempt) continue;
    const double ms = row_step_ms(run, row), covered = steps_since_row_before(run.steps, row);
    if (!std::isfinite(ms) || ms <= 0) {
      ++rows.num_unusable;
      unusable_steps += covered;
      continue;
    }
    rows.index.push_back(row);
    rows.step_ms.push_back(ms);
    rows.num_steps.push_back(num_steps_of(run.steps, row));
    rows.covered_steps.push_back(covered + (rows.index.size() > 1 ? unusable_steps : 0));
    unusable_steps = 0;
  }
  if (rows.index.empty()) return rows;
  rows.steps_per_row = stats::median(rows.num_steps);
  if (rows.steps_per_row > 1)
    join_short_rows(rows);
  else if (stats::median(rows.covered_steps) > rows.steps_per_row)
    set_epoch_starts_apart(run, rows);
  rows.epoch_starts.resize(rows.index.size()), rows.epoch_starts_ms.resize(rows.index.size());
  rows.covered_per_row = stats::median(rows.covered_steps);
  return rows;
}

stats::SeriesOptions series_options(const RunData& run, const UsableRows& rows,
                                    const std::optional<size_t>& warmup_steps) {
  double total_s = 0;
  for (size_t row = 0; row < rows.index.size(); ++row) total_s += rows.step_ms[row] * rows.covered_steps[row] / 1e3;
  stats::SeriesOptions series;
  series.min_warmup_steps = std::max<size_t>(1, static_cast<size_t>(std::ceil(kMinWarmupSteps / rows.covered_per_row)));
  // Rows hold the time of one step, whose floor is scaled by the steps from row to row.
  series.min_warmup_s = std::min(kMinWarmupS, total_s * kMaxWarmupShare) / rows.covered_per_row;
  series.warmup_steps = warmup_steps;
  series.has_every_step = rows.covered_per_row <= 1 && run.rounding_of_sums == 0;
  series.least_rounding = run.rounding_of_sums;
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

double row_step_ms(const RunData& run, size_t row) {
  const double direct = value_or_nan(run.steps.step_ms, row);
  if (std::isfinite(direct) && direct > 0) return direct;
  double samples = value_or_nan(run.steps.samples, row);
  if (!std::isfinite(samples) && run.setup.global_batch) samples = static_cast<double>(*run.setup.global_batch);
  const double rate = value_or_nan(run.steps.logged_samples_per_s, row);
  return rate > 0 && samples > 0 ? 1e3 * samples / rate : kUnknown;
}

double num_steps_of(const StepColumns& steps, size_t row) {
  return row < steps.num_steps.size() ? std::max(1, steps.num_steps[row]) : 1;
}

double steps_since_row_before(const StepColumns& steps, size_t row) {
  const double own = num_steps_of(steps, row);
  const auto attempt = [&](size_t of) { return of < steps.attempt.size() ? steps.attempt[of] : 1; };
  if (row == 0 || row >= steps.step.size() || attempt(row) != attempt(row - 1)) return own;
  return std::max(own, static_cast<double>(steps.step[row] - steps.step[row - 1]));
}

int64_t count_steps(const StepColumns& steps) {
  std::vector<double> since;
  for (size_t row = 0; row < steps.size(); ++row) since.push_back(steps_since_row_before(steps, row));
  if (since.empty()) return 0;
  const double usual = stats::median(since);
  const bool tells_single_steps =
      std::all_of(steps.num_steps.begin(), steps.num_steps.end(), [](int32_t num_steps) { return num_steps <= 1; });
  double sum = 0;
  for (size_t row = 0; row < steps.size(); ++row) {
    const bool is_first = row == 0 || (row < steps.attempt.size() && steps.attempt[row] != steps.attempt[row - 1]);
    sum += is_first && tells_single_steps ? std::clamp(usual, since[row], static_cast<double>(steps.step[row] + 1))
                                          : since[row];
  }
  return static_cast<int64_t>(sum);
}

bool does_begin_epoch(const StepColumns& steps, size_t row, size_t before) {
  return row < steps.epoch.size() && steps.epoch[row] >= 0 && steps.epoch[row] != steps.epoch[before];
}

double median_of_rows(const std::vector<double>& column, std::span<const size_t> rows) {
  std::vector<double> values;
  for (const size_t row : rows)
    if (const double value = value_or_nan(column, row); std::isfinite(value) && value > 0) values.push_back(value);
  return values.empty() ? kUnknown : stats::median(values);
}

MeasuredSteps measure_steps(const RunData& run, const std::optional<size_t>& warmup_steps) {
  MeasuredSteps steps{.rows = usable_rows(run)};
  steps.options = series_options(run, steps.rows, warmup_steps);
  steps.samples_per_step = kUnknown;
  if (steps.rows.index.empty()) return steps;
  steps.series = stats::summarise_series(steps.rows.step_ms, steps.options);
  steps.first = std::min(steps.series->num_warmup_steps, steps.rows.index.size() - 1);
  const auto measured = std::span(steps.rows.index).subspan(steps.first);
  for (size_t row = steps.first; row < steps.rows.index.size(); ++row)
    steps.num_steps += static_cast<int64_t>(steps.rows.num_steps[row]);
  steps.samples_per_step = median_of_rows(run.steps.samples, measured);
  if (!std::isfinite(steps.samples_per_step) && run.setup.global_batch)
    steps.samples_per_step = static_cast<double>(*run.setup.global_batch);
  return steps;
}

}  // namespace lockstep::record
