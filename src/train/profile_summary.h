#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "comm/recorder.h"

namespace lockstep::train {

/// Tables of a profile: mean time by phase over steps [first_step, end_step) of the record in `run_folder`, and the collectives of these steps. Written as
/// profile/phases.csv and profile/collectives.csv; returned as text for people.
std::string write_profile_summary(const std::filesystem::path& run_folder, int64_t first_step, int64_t end_step, int group_size,
                                  const std::vector<comm::RecorderEntry>& collectives);

}  // namespace lockstep::train
