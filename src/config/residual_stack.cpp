#include "config/residual_stack.h"

namespace lockstep::config {
namespace {

/// Widths that queries, keys and values of a token take in copies by head.
constexpr double kCopies = 3;

double block_bytes(BlockDims dims, ActivationBytes bytes) {
  dims.layers = 1;
  bytes.grad_checkpointing = false;
  const double copies =
      bytes.keeps_attention ? 0 : kCopies * static_cast<double>(dims.tokens * dims.width) * bytes.compute;
  return stack_activation_bytes(dims, bytes) - copies;
}

/// Of a block whose result is read at one position: for each token the first norm's input and output, keys and values;
/// the rest for that position, whose attention has one row.
double pooled_block_bytes(BlockDims dims, const ActivationBytes& bytes) {
  const auto tokens = static_cast<double>(dims.tokens), width = static_cast<double>(dims.width);
  const double keys_and_values = bytes.keeps_attention ? 4 : 2;  // widths, with their copies or without
  const double of_token = width * bytes.stream + (1 + keys_and_values) * width * bytes.compute;
  const double row = bytes.keeps_attention ? static_cast<double>(dims.heads) * tokens * bytes.compute : 0;
  dims.tokens = 1;
  return tokens * of_token + row + block_bytes(dims, bytes);
}

}  // namespace

double residual_stack_activation_bytes(const BlockDims& dims, const ActivationBytes& bytes, bool last_is_pooled) {
  const double block = block_bytes(dims, bytes), layers = static_cast<double>(dims.layers);
  if (bytes.grad_checkpointing) {  // inputs of all blocks, and one block at work
    const double input = static_cast<double>(dims.tokens) * static_cast<double>(dims.width) * bytes.stream;
    return layers * input + block;
  }
  return (layers - 1) * block + (last_is_pooled ? pooled_block_bytes(dims, bytes) : block);
}

}  // namespace lockstep::config
