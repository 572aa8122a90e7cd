#pragma once
#include <cstdint>
#include <string_view>

namespace lockstep::config {

/// How ranks keep their gradients equal, and what holds the fp32 copies of 16-bit weights.
enum class GradSyncKind {
  kNone,   ///< One rank, no buckets.
  kDdp,    ///< Every rank reduces every bucket.
  kZero1,  ///< Ranks share gradients and optimiser.
};

/// --grad-sync {auto,none,ddp,zero1} over `num_ranks` data ranks. Weights with fp32 copies have buckets on one rank,
/// too.
GradSyncKind grad_sync_kind(std::string_view flag, int64_t num_ranks, bool has_masters);

}  // namespace lockstep::config
