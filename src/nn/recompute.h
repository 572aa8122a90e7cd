#pragma once
#include <ATen/core/TensorBody.h>

#include <functional>
#include <vector>

#include "nn/module.h"

namespace lockstep::nn {

/// y = compute(x) without keeping what lies between for the backward pass: there compute runs once more, under the
/// autocast state of this call. Values and gradients are the bits of the plain call (but for a parameter that is used
/// more than once under autocast: its gradients then add up in fp32 instead of the low-precision type). `compute` must
/// be a pure function of x and of the parameters of `module` (no random draws, no statistics); `module` must outlive
/// the backward pass. Gradients of parameters flow out as ordinary gradients, so post-accumulate hooks fire once, also
/// for a parameter that several blocks use. x must require a gradient, or a parameter must.
at::Tensor recomputed(Module& module, const at::Tensor& x, std::function<at::Tensor(const at::Tensor&)> compute);
/// The same where compute reads the parameters of several modules, none twice.
at::Tensor recomputed(const std::vector<Module*>& modules, const at::Tensor& x,
                      std::function<at::Tensor(const at::Tensor&)> compute);

}  // namespace lockstep::nn
