#pragma once
#include <ATen/core/TensorBody.h>

namespace lockstep::nn {

constexpr double kQuickGeluSlope = 1.702;
enum class Activation { kGelu, kGeluTanh, kQuickGelu };
/// kGelu: the exact one (erf). kGeluTanh: its approximation by tanh. kQuickGelu: x * sigmoid(1.702 x) = silu(1.702 x) /
/// 1.702.
at::Tensor activate(const at::Tensor& x, Activation activation);

}  // namespace lockstep::nn
