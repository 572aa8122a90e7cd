// Letters: N rows, F inputs, D outputs.
#include "nn/linear_product.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

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

struct OnednnLinear : torch::autograd::Function<OnednnLinear> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    context->save_for_backward({x, weight});
    context->saved_data["has_bias"] = bias.has_value();
    return onednn_linear(x, weight, bias.value_or(at::Tensor()));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::Tensor dy_ND = gradients[0].reshape({-1, weight.size(0)}).contiguous();
    at::Tensor dx, dweight, dbias;
    if (context->needs_input_grad(0)) dx = onednn_linear(dy_ND, weight.t(), {}).view(x.sizes());
    if (context->needs_input_grad(1)) dweight = at::mm(dy_ND.t(), x.reshape({-1, weight.size(1)}));
    if (context->saved_data["has_bias"].toBool() && context->needs_input_grad(2)) dbias = dy_ND.sum(0);
    return {dx, dweight, dbias};
  }
};

}  // namespace

bool prefers_onednn(const at::Tensor& x, const at::Tensor& weight) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && weight.scalar_type() == at::kFloat && x.numel() > 0 &&
         is_other_x86() && has_onednn() && !at::autocast::is_autocast_enabled(c10::DeviceType::CPU);
}

at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!prefers_onednn(x, weight)) return at::linear(x, weight, bias);
  if (!c10::GradMode::is_enabled()) return onednn_linear(x, weight, bias);
  return OnednnLinear::apply(x, weight, bias.defined() ? std::optional(bias) : std::nullopt);
}

}  // namespace lockstep::nn
