#pragma once
#include <filesystem>

#include "record/run_data.h"

namespace lockstep::record {

/// The JSON Lines files of a run folder into `run`, by a fast parser. A missing file adds nothing; lines that cannot be
/// read are counted in num_rejected_lines and listed in `problems`. Of rank times, collectives and counters only those
/// of run.measured_attempt are kept (all where it is 0).
void load_steps(const std::filesystem::path& folder, RunData& run);
void load_rank_times(const std::filesystem::path& folder, RunData& run);
void load_collectives(const std::filesystem::path& folder, RunData& run);
void load_results(const std::filesystem::path& folder, RunData& run);
void load_system(const std::filesystem::path& folder, RunData& run);
void load_startup(const std::filesystem::path& folder, RunData& run);

}  // namespace lockstep::record
