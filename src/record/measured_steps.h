#pragma once
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "record/run_data.h"
#include "stats/series.h"

namespace lockstep::record {

/// The attempt with the most rows: start-up comes again with each restart, so attempts are not strung together. 0
/// without rows.
int longest_attempt(const StepColumns& steps);

/// Time of the steps of a row: as recorded, else from the printed rate; NaN: neither.
double row_step_ms(const RunData& run, size_t row);
/// Optimiser steps that the time of a row is the mean of.
double num_steps_of(const StepColumns& steps, size_t row);
/// Optimiser steps since the row before of the same attempt: more than num_steps_of where a program tells the time of
/// one step of several, or lines of it were lost. Of an attempt's first row num_steps_of.
double steps_since_row_before(const StepColumns& steps, size_t row);
/// Optimiser steps of all attempts. Where a program tells one step of several, those before its first line count as
/// those between lines, as far as there are any.
int64_t count_steps(const StepColumns& steps);
/// Is it of another epoch than the row before? Its step waits for the loader then.
bool does_begin_epoch(const StepColumns& steps, size_t row, size_t before);
/// A column that a source did not tell is empty, one that it began late is short: NaN then.
inline double value_or_nan(const std::vector<double>& column, size_t row) {
  return row < column.size() ? column[row] : std::numeric_limits<double>::quiet_NaN();
}

/// Rows that have a usable step time, all of one attempt.
struct UsableRows {
  std::vector<size_t> index{};          ///< Into the columns of the run.
  std::vector<double> step_ms{};        ///< As recorded, else from the printed rate.
  std::vector<double> num_steps{};      ///< Steps that step_ms is the mean of.
  std::vector<double> covered_steps{};  ///< Steps since the row before, those included that no row tells.
  /// First steps of epochs among the covered ones, which a log that tells some steps only tells too: they wait for the
  /// loader and are no sample of the others. How many they are, and their time.
  std::vector<double> epoch_starts{}, epoch_starts_ms{};
  double steps_per_row = 1;    ///< Median of num_steps; above 1 the source logs means over so many steps.
  double covered_per_row = 1;  ///< Median of covered_steps; above steps_per_row the rows are a sample of the steps.
  size_t num_unusable = 0;     ///< Rows whose time is missing, not finite or not positive.
};

/// The one measurement of a run, the same for every command that tells its step time.
struct MeasuredSteps {
  UsableRows rows{};
  stats::SeriesOptions options{};
  std::optional<stats::SeriesSummary> series{};  ///< Absent without usable rows.
  size_t first = 0;                              ///< Of rows.index: the first after the warm-up.
  int64_t num_steps = 0;                         ///< Optimiser steps from there on.
  double samples_per_step = 0;                   ///< Over all ranks; NaN: unknown.
};

/// Warm-up lasts at least 10 steps and 30 s, but in short runs no more than a tenth of them in time (steps that no row
/// tells count); `warmup_steps` (rows) replaces its detection.
MeasuredSteps measure_steps(const RunData& run, const std::optional<size_t>& warmup_steps = {});

/// Median of the finite values above zero among these rows; NaN without any.
double median_of_rows(const std::vector<double>& column, std::span<const size_t> rows);

}  // namespace lockstep::record
