#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace lockstep::logs {

/// Where a column's name is looked up: in a CSV log of steps, or in a table of results over sizes.
enum class ColumnUse : uint8_t { kSteps = 1, kResults = 2, kBoth = 3 };

/// The quantity that a column's plain name stands for: "n_nodes" -> "nodes". Empty: nothing known.
std::string_view find_quantity(std::string_view plain_name, ColumnUse use);
/// The same of a name without its unit of time, "iteration_time" of "iteration_time_ms": "step_time" or "data_wait".
std::string_view find_duration(std::string_view stem, ColumnUse use);

/// The name under which formulas over a table of results know a column: "n_nodes" and "Number of nodes" -> "nodes",
/// "throughput (tokens/s)" -> "tokens_per_s". A name that stands for nothing known is kept.
std::string known_column(const std::string& header);
/// A plain name with its short words for a batch in full: "bsz_per_device" -> "batch_size_per_device".
std::string spelled_out(const std::string& plain_name);
/// Does a column tell the devices of one node: "gpus_per_node", "GPU num per node"?
bool counts_devices_of_node(std::string_view plain_name);
/// "dp", "tp", "pp" or "cp" for a column of ranks of that kind: "data_parallel_size" -> "dp". Empty for others.
std::string_view ranks_of(std::string_view plain_name);
/// Decimals by which a results column of step times is finer than seconds; below 0 for other columns.
int step_time_decimals(const std::string& header);
/// The known name of a column of step times.
inline constexpr std::string_view kStepTimeColumn = "step_time_s";

/// The known name of a column of times to a solution, whatever their unit: the same in all rows.
inline constexpr std::string_view kSolutionTimeColumn = "time_to_solution";

/// Is this a time that names neither a step nor a whole run: "time", "time_s", "seconds"?
bool may_be_whole_time(std::string_view plain_name);

/// Is this a CSV of results over sizes, rather than of steps? False for what cannot be read.
bool is_result_table(const std::filesystem::path& path);

}  // namespace lockstep::logs
