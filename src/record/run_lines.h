#pragma once
#include <filesystem>
#include <string_view>

#include "record/run_data.h"

namespace lockstep::record {

/// The JSON Lines files of a run folder into `run`, by a fast parser. A missing file adds nothing; lines that cannot be read are counted in
/// num_rejected_lines and told in `problems`.
void load_steps(const std::filesystem::path& folder, RunData& run);
void load_rank_times(const std::filesystem::path& folder, RunData& run);
void load_collectives(const std::filesystem::path& folder, RunData& run);
void load_results(const std::filesystem::path& folder, RunData& run);
void load_system(const std::filesystem::path& folder, RunData& run);
void load_startup(const std::filesystem::path& folder, RunData& run);

/// One row more, all unknown but the step.
void add_row(StepColumns& columns, int64_t step);
/// Value of a phase in the last row.
void set_phase(StepColumns& columns, std::string_view phase, float value);
/// Sorts by step and keeps of each step the row of the highest attempt, of equal ones the last. Returns how many rows went.
int64_t keep_last_attempts(StepColumns& columns);

}  // namespace lockstep::record
