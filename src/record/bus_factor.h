#pragma once
#include <optional>
#include <string_view>

namespace lockstep::record {

/// Bus bandwidth over algorithm bandwidth of a collective over `num_ranks` ranks, as nccl-tests defines it (its
/// doc/PERFORMANCE.md): 2 (n-1)/n, (n-1)/n or 1. The kind as any program writes it: "all_reduce", "all-reduce",
/// "AllReduce" and "allreduce_coalesced" are one. Nothing for a kind that has none, such as a barrier.
std::optional<double> bus_factor(std::string_view kind, int num_ranks);

}  // namespace lockstep::record
