#pragma once
#include <ATen/core/TensorBody.h>

#include "config/gpt_shape.h"

namespace lockstep::nn {

/// What lies between the two matrices of a feed-forward layer. SwiGLU takes twice as many columns as it gives: gates,
/// then values.
at::Tensor activate(const at::Tensor& x, config::GptActivation activation);

}  // namespace lockstep::nn
