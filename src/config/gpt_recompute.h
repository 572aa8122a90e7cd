#pragma once

namespace lockstep::config {

/// What a GPT computes a second time in the backward pass instead of keeping it.
enum class GptRecompute {
  kNone,
  kSelective,  ///< The attention core: scores, softmax and weighted sum.
  kUniform,    ///< Units of several layers, each from its input.
  kBlock,      ///< The first layers of each chunk, one by one.
};

}  // namespace lockstep::config
