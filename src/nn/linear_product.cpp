// Letters: N rows, F inputs, D outputs.
#include "nn/linear_product.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/linear.h>
#include <c10/core/GradMode.h>

#include "nn/onednn.h"

namespace lockstep::nn {
namespace {

/// MKL is at its best on Intel's processors, where the two have not been compared.
bool is_other_x86() {
#if defined(__x86_64__)
  static const bool is_other = !__builtin_cpu_is("intel");
  return is_other;
#else
  return false;
#endif
}

}  // namespace

bool prefers_onednn(const at::Tensor& x, const at::Tensor& weight) {
  return !c10::GradMode::is_enabled() && x.is_cpu() && x.scalar_type() == at::kFloat &&
         weight.scalar_type() == at::kFloat && x.numel() > 0 && is_other_x86() && has_onednn() &&
         !at::autocast::is_autocast_enabled(c10::DeviceType::CPU);
}

at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return prefers_onednn(x, weight) ? onednn_linear(x, weight, bias) : at::linear(x, weight, bias);
}

}  // namespace lockstep::nn
