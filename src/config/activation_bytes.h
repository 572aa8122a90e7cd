#pragma once
#include <cstdint>
#include <string>

namespace lockstep::config {

/// How much of a forward pass is kept for the backward pass, and in which types.
struct ActivationBytes {
  double compute = 4;               ///< Bytes of an element that autocast computes.
  double stream = 4;                ///< Of the residual stream and the norms.
  double weight = 4;                ///< Of a parameter.
  bool keeps_attention = false;     ///< Attention probabilities are kept (no fused kernel).
  bool grad_checkpointing = false;  ///< Blocks keep only their inputs.
};

/// ActivationBytes of --precision, the two flags left off.
ActivationBytes activation_bytes_of(const std::string& precision);

/// A stack of equal transformer blocks.
struct BlockDims {
  int64_t layers = 0, tokens = 0, width = 0, heads = 0, mlp_width = 0;
};

/// What such a stack keeps of one sample.
double stack_activation_bytes(const BlockDims& dims, const ActivationBytes& bytes);

}  // namespace lockstep::config
