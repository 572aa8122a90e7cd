#pragma once
#include <ATen/core/TensorBody.h>

#include "nn/activation.h"

namespace lockstep::nn {

/// Do own kernels add the bias, activate, and make the bias's gradient in one pass forward and one backward?
bool takes_bias_with_activation(const at::Device& device, Activation activation);

/// activate(x W^t + b), weight and bias as of linear_layer(), by these kernels where they take it.
at::Tensor linear_activation_layer(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                   Activation activation);

/// activate(x + bias), likewise. `bias`: of the last dim, in its own type.
at::Tensor activate_biased(const at::Tensor& x, const at::Tensor& bias, Activation activation);

/// x + bias, which is cast to x's type.
at::Tensor add_bias(const at::Tensor& x, const at::Tensor& bias);

}  // namespace lockstep::nn
