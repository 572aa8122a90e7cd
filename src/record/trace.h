#pragma once
#include <filesystem>
#include <utility>
#include <vector>

namespace lockstep::record {

/// Joins Chrome traces of several ranks (as Kineto writes them) into one on a common clock: the processes of rank 3 are named "rank 3: ...". One trace at a time
/// is in memory. Returns the number of events. DataError names a file that is no trace; EnvironmentError when `output` cannot be written.
int64_t merge_traces(const std::vector<std::pair<int, std::filesystem::path>>& traces_by_rank, const std::filesystem::path& output);

}  // namespace lockstep::record
