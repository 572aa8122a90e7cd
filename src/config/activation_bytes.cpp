#include "config/activation_bytes.h"

#include "config/precision_names.h"

namespace lockstep::config {
namespace {

/// One block keeps for each token: the input of both norms (stream), and in the compute type the norms' outputs,
/// queries, keys and values with their copies by head, the attention's result, both sides of the activation function.
double block_activation_bytes(const BlockDims& dims, const ActivationBytes& bytes) {
  const auto tokens = static_cast<double>(dims.tokens), width = static_cast<double>(dims.width);
  const double stream = 2 * width * bytes.stream;
  const double compute = (2 + 6 + 1) * width + 2 * static_cast<double>(dims.mlp_width) +
                         (bytes.keeps_attention ? static_cast<double>(dims.heads) * tokens : 0);
  return tokens * (stream + compute * bytes.compute);
}

}  // namespace

ActivationBytes activation_bytes_of(const std::string& precision) {
  if (precision == "fp32") return {};
  if (has_16bit_weights(precision)) return {.compute = 2, .stream = 2, .weight = 2};
  return {.compute = 2, .stream = 4, .weight = 4};  // autocast over fp32 weights
}

double stack_activation_bytes(const BlockDims& dims, const ActivationBytes& bytes) {
  const double block = block_activation_bytes(dims, bytes), layers = static_cast<double>(dims.layers);
  if (!bytes.grad_checkpointing) return layers * block;
  const double input = static_cast<double>(dims.tokens) * static_cast<double>(dims.width) * bytes.stream;
  return layers * input + block;  // inputs of all blocks, and one block at work
}

}  // namespace lockstep::config
