#pragma once
#include <span>
#include <string_view>

#include "record/run_data.h"

namespace lockstep::record {

/// One row more, all unknown but the step.
void add_row(StepColumns& columns, int64_t step);
void drop_last_row(StepColumns& columns);
/// Names of phases that a run may have: each is a column as long as the run.
inline constexpr size_t kMaxPhases = 256;
/// Value of a phase in the last row. False where it would be one phase more than a run may have.
bool set_phase(StepColumns& columns, std::string_view phase, float value);
/// The rows of these numbers, in this order, and no others. Columns that the source does not fill stay empty.
void select_rows(StepColumns& columns, std::span<const size_t> rows);
/// The rows of one attempt and no others.
void keep_attempt(StepColumns& columns, int attempt);
/// Sorts by step and keeps of each step the row of the highest attempt, of equal ones the last. Returns how many rows
/// went.
int64_t keep_last_attempts(StepColumns& columns);

}  // namespace lockstep::record
