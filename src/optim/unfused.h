#pragma once
#include <ATen/core/TensorBody.h>

namespace lockstep::optim {

// For optimisers that no fused kernel of LibTorch knows: an update is skipped by weights of 0, without asking the
// device.

/// The gradient in the parameter's layout and type, divided by `grad_divisor` (undefined: by 1) in place as
/// Optimizer::step says; zeros where `found_inf` (undefined: 0) is 1.
at::Tensor finite_gradient(const at::Tensor& gradient, const at::Tensor& parameter, const at::Tensor& grad_divisor,
                           const at::Tensor& found_inf);

/// 1, or 0 where `found_inf` is 1: 0-dim of the parameter's type on its device.
at::Tensor update_weight(const at::Tensor& parameter, const at::Tensor& found_inf);

}  // namespace lockstep::optim
