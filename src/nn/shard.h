#pragma once
#include "comm/comm.h"

namespace lockstep::nn {

/// All that a layer may know of distribution.
struct ShardCtx {
  /// The ranks that share each layer (nullptr: this rank alone). Outlives layers and graphs.
  comm::Comm* tp = nullptr;
  /// Between the shared layers every rank holds its part of the tokens only (Korthikanti et al. 2022).
  bool is_sequence_parallel = false;

  int size() const { return tp == nullptr ? 1 : tp->size(); }
  int rank() const { return tp == nullptr ? 0 : tp->rank(); }
  bool is_alone() const { return size() == 1; }
  bool splits_tokens() const { return is_sequence_parallel && !is_alone(); }
};

}  // namespace lockstep::nn
