#include "nn/bias_activation.h"

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "nn/gpu_kernels.h"
#include "nn/product.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct BiasActivation : torch::autograd::Function<BiasActivation> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& bias, int64_t activation) {
    context->save_for_backward({x, bias});
    context->saved_data["activation"] = activation;
    return bias_activation_on_gpu(x, bias, static_cast<Activation>(activation));
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto activation = static_cast<Activation>(context->saved_data["activation"].toInt());
    const GpuActivationGradients found = bias_activation_backward_on_gpu(saved[0], saved[1], activation, gradients[0]);
    return {found.x, found.bias, at::Tensor()};
  }
};

struct AddBias : torch::autograd::Function<AddBias> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& bias) {
    context->saved_data["type"] = bias.scalar_type();
    return x.add(bias.to(x.scalar_type()));
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor& gradient = gradients[0];
    return {gradient,
            column_sums(gradient.reshape({-1, gradient.size(-1)}), context->saved_data["type"].toScalarType())};
  }
};

}  // namespace

at::Tensor linear_activation_layer(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                   Activation activation) {
  if (!bias.defined() || !has_gpu_kernels(x.device())) return activate(linear_layer(x, weight, bias), activation);
  return activate_biased(linear_layer(x, weight, {}), bias, activation);
}

at::Tensor activate_biased(const at::Tensor& x, const at::Tensor& bias, Activation activation) {
  if (!suits_gpu_bias_activation(x, bias)) return activate(add_bias(x, bias), activation);
  return c10::GradMode::is_enabled() ? BiasActivation::apply(x, bias, static_cast<int64_t>(activation))
                                     : bias_activation_on_gpu(x, bias, activation);
}

at::Tensor add_bias(const at::Tensor& x, const at::Tensor& bias) {
  return c10::GradMode::is_enabled() && has_gpu_kernels(x.device()) ? AddBias::apply(x, bias)
                                                                    : x.add(bias.to(x.scalar_type()));
}

}  // namespace lockstep::nn
