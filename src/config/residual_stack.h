#pragma once
#include "config/activation_bytes.h"

namespace lockstep::config {

/// What a stack of nn::ResidualBlock keeps of one sample. As stack_activation_bytes, which counts copies of queries,
/// keys and values by head, but for two things: a fused kernel (no `keeps_attention`) reads them where their product
/// wrote them, and with `last_is_pooled` (nn::Transformer::forward_pooled) the last block computes for one position
/// alone what follows the keys and values.
double residual_stack_activation_bytes(const BlockDims& dims, const ActivationBytes& bytes, bool last_is_pooled);

}  // namespace lockstep::config
