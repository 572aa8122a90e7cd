#pragma once
#include "plan/gpt_layout.h"
#include "plan/gpt_memory.h"

namespace lockstep::plan {

/// Bytes that operators beside matrix products read and write on one rank in one step, forward and backward: each of
/// them passes over memory and computes next to nothing.
struct MemoryBoundBytes {
  /// Norms, residual sums, dropout between layers, embedding: every tensor rank does them for all tokens, with sequence
  /// parallelism for its own.
  double replicated = 0;
  /// Activation functions, softmax and dropout of attention, cross entropy, accumulation of gradients: each tensor rank
  /// has its part.
  double divided = 0;
  double repeated = 0;  ///< Of `replicated`, what this rank would not have to do if tensor ranks shared it.
  double total() const { return replicated + divided; }
};

/// Counts the passes that src/models/gpt and src/nn make over each tensor, none of them in a cache. The update is not
/// in it. docs/predict.md has the table.
MemoryBoundBytes count_memory_bound_bytes(const GptLayout& layout, int stage, const GptMemoryInput& input);

}  // namespace lockstep::plan
