#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "predict/machine.h"

namespace lockstep::predict {

/// Nodes as NCCL's own model of collectives sees them.
struct NcclNodes {
  enum Family : uint8_t { kAmpere, kHopper };
  Family family = kAmpere;
  bool has_amd_host = false;
  double devices_per_node = 8;
  double num_channels = 8, channel_gbytes_per_s = 24;
};

enum class Collective { kAllReduce, kReduceScatter, kAllGather };

/// What NCCL expects of a call by an algorithm and protocol.
struct NcclChoice {
  double seconds = 0;
  double latency_s = 0;  ///< The part that bytes do not change.
  std::string_view algorithm{}, protocol{};
};

/// What NCCL chooses from, of which it takes the fastest: ring and double binary tree (all-reduce alone) with the LL,
/// LL128 and Simple protocols, by the formulas and constants of NCCL's tuning source (2026), for `bytes` over all
/// devices of `num_nodes` nodes. In-network reduction, NVLS and PAT are not in it: they need switches and plugins that
/// a system file does not tell. As many bytes never take longer by any of them where the network is faster, nor fewer
/// bytes than more: what would be sent faster as a larger message is sent as one. Empty for one device.
std::vector<NcclChoice> nccl_choices(const NcclNodes& nodes, Collective collective, double num_nodes, double bytes);

/// The nodes of a machine, where its devices are of a family that the model knows and a node has several.
std::optional<NcclNodes> nccl_nodes_of(const Machine& machine);

}  // namespace lockstep::predict
