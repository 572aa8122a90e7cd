#include "analysis/wall_clock.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "stats/statistics.h"

namespace lockstep::analysis {
namespace {
using record::MeasuredSteps;
using record::RunData;

/// Steps of an interval before the evaluation in it, as its result or the epoch of its last step tells; lines that come
/// every k steps are mostly printed just before it.
double steps_to_pause(const RunData& run, size_t row, double num_steps, const std::vector<int64_t>& evaluated) {
  const auto last = static_cast<double>(run.steps.step[row]), begin = last + 1 - num_steps;  // steps done
  const auto found = std::lower_bound(evaluated.begin(), evaluated.end(), begin);
  if (found != evaluated.end() && static_cast<double>(*found) <= last) return static_cast<double>(*found) - begin;
  return row > 0 && record::does_begin_epoch(run.steps, row, row - 1) ? num_steps - 1 : 0;
}

/// Steps done before each evaluation, ascending.
std::vector<int64_t> evaluated_steps(const RunData& run) {
  std::vector<int64_t> steps;
  for (const record::ResultRecord& result : run.results) steps.push_back(result.step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

/// Rows between which time passes: those of the window with a time of day.
std::vector<ClockInterval> clock_intervals(const RunData& run, const MeasuredSteps& steps) {
  const std::vector<int64_t> evaluated = evaluated_steps(run);
  std::vector<ClockInterval> intervals;
  ClockInterval open;
  double last_s = record::value_or_nan(run.steps.time_s, steps.rows.index[steps.first]);
  for (size_t row = steps.rows.index[steps.first] + 1; row <= steps.rows.index.back(); ++row) {
    const double ms = record::row_step_ms(run, row), time_s = record::value_or_nan(run.steps.time_s, row);
    open.num_steps += record::steps_since_row_before(run.steps, row);
    if (std::isfinite(ms) && ms > 0) {
      const double told = record::num_steps_of(run.steps, row);
      open.told_steps += told;
      open.told_s += told * ms / 1e3;
    }
    if (!std::isfinite(time_s)) continue;
    open.seconds = time_s - last_s;
    open.steps_to_pause = steps_to_pause(run, row, open.num_steps, evaluated);
    intervals.push_back(open);
    open = {};
    last_s = time_s;
  }
  return intervals;
}

/// The same between all lines of a log whose rows may be longer than from line to line: it tells no single step.
std::vector<ClockInterval> line_intervals(const RunData& run, const MeasuredSteps& steps) {
  std::vector<std::pair<double, int64_t>> lines;  // time and step
  for (size_t row = steps.rows.index[steps.first]; row <= steps.rows.index.back(); ++row)
    if (std::isfinite(run.steps.time_s[row])) lines.emplace_back(run.steps.time_s[row], run.steps.step[row]);
  const double begin_s = lines.front().first, end_s = lines.back().first;
  for (const auto& [step, time_s] : run.line_times)
    if (time_s > begin_s && time_s < end_s) lines.emplace_back(time_s, step);
  std::sort(lines.begin(), lines.end());
  std::vector<ClockInterval> intervals;
  auto [last_s, last_step] = lines.front();
  for (const auto& [time_s, step] : lines) {
    if (step <= last_step) continue;
    intervals.push_back({.seconds = time_s - last_s, .num_steps = static_cast<double>(step - last_step)});
    last_s = time_s, last_step = step;
  }
  return intervals;
}

/// What the time between two rows may exceed that of their steps by without being a pause.
struct Tolerance {
  double median_ms = 0;
  double spread_ms = 0;            ///< Of single steps, around the median.
  bool has_whole_seconds = false;  ///< Times of day.

  /// `untold_steps` of the interval vary around their usual time.
  double seconds(double steps_s, double untold_steps) const {
    constexpr double kSteps = 0.5, kShare = 0.03, kSpreads = 5, kWholeS = 1.5;
    return std::max({kSteps * median_ms / 1e3, kShare * steps_s, kSpreads * spread_ms / 1e3 * std::sqrt(untold_steps),
                     has_whole_seconds ? kWholeS : 0});
  }
};

Tolerance tolerance_of(const RunData& run, const MeasuredSteps& steps) {
  const std::span<const double> values = std::span(steps.rows.step_ms).subspan(steps.first);
  return {.median_ms = steps.series->median_ms,
          .spread_ms = stats::robust_stddev(values, stats::median(values)),
          .has_whole_seconds = std::all_of(run.steps.time_s.begin(), run.steps.time_s.end(),
                                           [](double time_s) { return time_s == std::floor(time_s); })};
}

/// Mean of the steps that the log does not tell, in the intervals without a pause.
double untold_step_ms(const std::vector<ClockInterval>& intervals, const Tolerance& tolerance, size_t num_told) {
  std::vector<double> means_ms;  // by interval
  for (const ClockInterval& one : intervals)
    if (one.untold_steps() > 0) means_ms.push_back(1e3 * (one.seconds - one.told_s) / one.untold_steps());
  if (means_ms.empty()) return tolerance.median_ms;
  constexpr double kLowest = 25, kShare = 0.03, kErrors = 4;
  double step_ms = stats::percentile(means_ms, kLowest);
  const double doubt_ms = kErrors * tolerance.spread_ms / std::sqrt(static_cast<double>(num_told));
  if (!(step_ms > 0) || step_ms > tolerance.median_ms * (1 + kShare) + doubt_ms)
    return tolerance.median_ms;  // each interval has a pause
  constexpr int kPasses = 8;
  for (int pass = 0; pass < kPasses; ++pass) {
    double seconds = 0, steps = 0;
    for (const ClockInterval& one : intervals) {
      const double rest_s = one.seconds - one.told_s, expected_s = one.untold_steps() * step_ms / 1e3;
      if (one.untold_steps() <= 0 ||
          rest_s - expected_s > tolerance.seconds(one.told_s + expected_s, one.untold_steps()))
        continue;
      seconds += rest_s, steps += one.untold_steps();
    }
    if (steps <= 0) break;
    step_ms = 1e3 * seconds / steps;
  }
  return step_ms;
}

/// The end of the evaluation behind the last row, where a source tells it, and the steps that lie before it.
struct LastEvaluation {
  double steps = 0, end_s = 0;
};
std::optional<LastEvaluation> last_evaluation(const RunData& run, const record::UsableRows& rows) {
  const int64_t last_step = run.steps.step[rows.index.back()];
  const double last_s = record::value_or_nan(run.steps.time_s, rows.index.back());
  constexpr double kReach = 1.5;  // rows; what comes later is not of this row
  std::optional<LastEvaluation> last;
  double seconds = 0;
  for (const record::ResultRecord& result : run.results) {
    const double steps = std::max(0.0, static_cast<double>(result.step - last_step - 1));
    if (result.step < last_step || steps > kReach * rows.covered_per_row) continue;
    if (result.ended_s && run.num_attempts == 1 && *result.ended_s > last_s)
      last = LastEvaluation{steps, *result.ended_s};
    if (result.seconds && steps == 0 && result.step > last_step && run.format == "lockstep" &&
        result.attempt == run.measured_attempt)
      seconds += *result.seconds;
  }
  if (seconds > 0) last = LastEvaluation{0, last_s + seconds};
  return last;
}
}  // namespace

void Pauses::add(double pause_s, double at) {
  if (count > 0) {
    const double gap = at - last_at;
    shortest_gap = count == 1 ? gap : std::min(shortest_gap, gap);
    longest_gap = std::max(longest_gap, gap);
  }
  shortest_s = count == 0 ? pause_s : std::min(shortest_s, pause_s);
  longest_s = std::max(longest_s, pause_s);
  if (count++ == 0) first_at = at;
  last_at = at;
  seconds += pause_s;
}

bool Pauses::are_regular() const {
  constexpr double kUnequal = 1.5;
  return count >= 2 && longest_gap <= kUnequal * shortest_gap && longest_s <= kUnequal * shortest_s;
}

double Pauses::seconds_in(double num_steps) const {
  constexpr double kLeastSpan = 0.5;  // of the window
  const double span = last_at - first_at, num_gaps = static_cast<double>(count) - 1;
  if (!are_regular() || span < kLeastSpan * num_steps) return seconds;
  const double num_periods = num_steps / (span / num_gaps);
  if (std::abs(num_periods - static_cast<double>(count)) > 1) return seconds;  // they began late or ended early
  return seconds / static_cast<double>(count) * num_periods;
}

double window_seconds(const RunData& run, const MeasuredSteps& steps) {
  const auto time_of = [&](size_t i) { return record::value_or_nan(run.steps.time_s, steps.rows.index[i]); };
  return time_of(steps.rows.index.size() - 1) - time_of(steps.first) +
         steps.rows.step_ms[steps.first] * steps.rows.num_steps[steps.first] / 1e3;
}

WallClock read_wall_clock(const RunData& run, const MeasuredSteps& steps) {
  const std::vector<ClockInterval> intervals =
      run.rounding_of_sums > 0 ? line_intervals(run, steps) : clock_intervals(run, steps);
  const Tolerance tolerance = tolerance_of(run, steps);
  const double step_ms = untold_step_ms(intervals, tolerance, steps.rows.index.size() - steps.first);
  WallClock clock{.seconds = window_seconds(run, steps), .num_steps = steps.rows.num_steps[steps.first]};
  size_t num_untold = 0;  // intervals with steps that no line tells
  for (const ClockInterval& one : intervals) {
    const double steps_s = one.told_s + one.untold_steps() * step_ms / 1e3, pause_s = one.seconds - steps_s;
    if (pause_s > tolerance.seconds(steps_s, one.untold_steps()))
      clock.pauses.add(pause_s, clock.num_steps + one.steps_to_pause);
    clock.num_steps += one.num_steps;
    num_untold += one.untold_steps() > 0;
  }
  constexpr double kDoubtfulShare = 1.0 / 3;
  clock.are_pauses_doubtful =
      num_untold > 0 && run.results.empty() && clock.pauses.count >= 2 &&
      static_cast<double>(clock.pauses.count) > kDoubtfulShare * static_cast<double>(num_untold);
  if (const auto last = last_evaluation(run, steps.rows)) {
    const double steps_s = last->steps * step_ms / 1e3,
                 pause_s = last->end_s - record::value_or_nan(run.steps.time_s, steps.rows.index.back()) - steps_s;
    if (pause_s > tolerance.seconds(steps_s, last->steps)) {
      clock.num_steps += last->steps;
      clock.seconds += steps_s + pause_s;
      clock.steps_behind = last->steps, clock.seconds_behind = steps_s;
      clock.pauses.add(pause_s, clock.num_steps);
    }
  }
  return clock;
}

}  // namespace lockstep::analysis
