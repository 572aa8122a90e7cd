#pragma once
#include <cstddef>
#include <optional>

#include "record/measured_steps.h"
#include "record/run_data.h"

namespace lockstep::analysis {

/// Steps from one row with a time of day to the next. Of some of them the log tells the time.
struct ClockInterval {
  double seconds = 0;  ///< By the clock.
  double num_steps = 0;
  double told_steps = 0, told_s = 0;
  double steps_to_pause = 0;  ///< Where a pause in it would lie: its beginning, or the end of an evaluation or epoch.

  double untold_steps() const { return num_steps - told_steps; }
};

/// Time between steps in the window, by the clock of the rows.
struct Pauses {
  size_t count = 0;
  double seconds = 0, first_at = 0, last_at = 0;  ///< Places: steps done since the window began.
  double shortest_gap = 0, longest_gap = 0;       ///< Steps from one to the next.
  double shortest_s = 0, longest_s = 0;

  void add(double pause_s, double at);
  /// Are they about as long as each other, and as far from each other?
  bool are_regular() const;
  /// Of so many steps. Regular ones that fill the window: as many as come between the first and the last, since where a
  /// window ends is chance. Others (a hang, checkpoints beside evaluations, a part of the run): those that were there.
  double seconds_in(double num_steps) const;
};

/// Wall clock from the start of the first measured row's steps to the end of the last evaluation.
struct WallClock {
  double seconds = 0;
  double num_steps = 0;  ///< Of them so many behind the last row, and their time:
  double steps_behind = 0, seconds_behind = 0;
  Pauses pauses{};
  /// So many intervals have one, and no evaluation is told, that they may be steps slower than those of the lines.
  bool are_pauses_doubtful = false;
};

/// From the start of the first measured row's steps to the end of the last row; NaN: the source tells no times of day.
double window_seconds(const record::RunData& run, const record::MeasuredSteps& steps);

/// Time of day against step times in the window, which has a clock. What an interval takes beyond its steps is a pause,
/// where it is more than these may vary by; steps that the log does not tell take as long as they do by the clock in
/// intervals without a pause, or where each has one, as the told ones.
WallClock read_wall_clock(const record::RunData& run, const record::MeasuredSteps& steps);

}  // namespace lockstep::analysis
