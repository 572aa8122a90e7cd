#pragma once
#include <cstdint>

namespace lockstep::models {

/// What a forward pass must know besides its input. With an equal context and equal input a network computes equal
/// features, bit for bit, so that the feature-cache step can run a micro-batch twice.
struct ForwardContext {
  /// Keys every random operation (patch dropout): draws are a function of (key, place, index).
  uint64_t random_key = 0;
  /// False in the cache pass: batch norm computes as in training but leaves its running statistics alone.
  bool updates_statistics = true;
  /// The micro-batch ran before in this step: the features of a teacher are there already, and nothing counts twice.
  bool is_rerun = false;
  bool keeps_padding = false;  ///< Tokens for a decoder come for all columns of texts, trailing padding among them.
};

}  // namespace lockstep::models
