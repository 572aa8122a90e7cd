#pragma once
#include "config/gpt_params.h"

namespace lockstep::config {

/// Parameters with as many rows of the vocabulary as there are tokens, as model cards count.
inline int64_t unpadded_parameters(const GptShape& shape) {
  const int64_t num_tables = shape.is_head_tied ? 1 : 2;
  return gpt_cost(shape).parameters - num_tables * (shape.padded_vocab(1) - shape.vocab) * shape.hidden;
}

}  // namespace lockstep::config
