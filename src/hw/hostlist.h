#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::hw {

/// Lists longer than this are refused: a hostile "n[0-999999999]" must not fill the memory.
inline constexpr size_t kMaxHosts = 65536;

/// Expands SLURM's host list notation, in order and with duplicates kept: "node[08-11,13],gpu1", "a[1-2]b[3-4]" (last
/// bracket fastest). The lower bound's width pads the numbers. Text after the last bracket is accepted. Anything
/// malformed (unclosed or empty bracket, descending range, empty name) or longer than `max_hosts` throws
/// EnvironmentError that shows the text and the position. So does a name of more than 255 characters.
std::vector<std::string> expand_hostlist(std::string_view text, size_t max_hosts = kMaxHosts);

/// SLURM's tasks per node, "2(x3),1" -> 2 2 2 1. Malformed text or more than `max_nodes` entries throw
/// EnvironmentError.
std::vector<int> parse_task_counts(std::string_view text, size_t max_nodes = kMaxHosts);

}  // namespace lockstep::hw
