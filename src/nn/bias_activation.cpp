#include "nn/bias_activation.h"

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "nn/cpu_kernels.h"
#include "nn/gpu_kernels.h"
#include "nn/product.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor with_kernel(const at::Tensor& x, const at::Tensor& bias, Activation activation) {
  return x.is_cpu() ? bias_activation_on_cpu(x, bias, activation) : bias_activation_on_gpu(x, bias, activation);
}

struct BiasActivation : torch::autograd::Function<BiasActivation> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& bias, int64_t activation) {
    context->save_for_backward({x, bias});
    context->saved_data["activation"] = activation;
    return with_kernel(x, bias, static_cast<Activation>(activation));
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto activation = static_cast<Activation>(context->saved_data["activation"].toInt());
    const auto backward_of = saved[0].is_cpu() ? bias_activation_backward_on_cpu : bias_activation_backward_on_gpu;
    const ActivationGradients found = backward_of(saved[0], saved[1], activation, gradients[0]);
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

bool takes_bias_with_activation(const at::Device& device, Activation activation) {
  return device.is_cpu() ? has_cpu_bias_activation(activation) : has_gpu_kernels(device);
}

at::Tensor linear_activation_layer(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                   Activation activation) {
  if (!bias.defined() || !takes_bias_with_activation(x.device(), activation))
    return activate(linear_layer(x, weight, bias), activation);
  return activate_biased(linear_layer(x, weight, {}), bias, activation);
}

at::Tensor activate_biased(const at::Tensor& x, const at::Tensor& bias, Activation activation) {
  const bool has_kernel =
      x.is_cpu() ? suits_cpu_bias_activation(x, bias, activation) : suits_gpu_bias_activation(x, bias);
  if (!has_kernel) return activate(add_bias(x, bias), activation);
  return c10::GradMode::is_enabled() ? BiasActivation::apply(x, bias, static_cast<int64_t>(activation))
                                     : with_kernel(x, bias, activation);
}

at::Tensor add_bias(const at::Tensor& x, const at::Tensor& bias) {
  return c10::GradMode::is_enabled() && has_gpu_kernels(x.device()) ? AddBias::apply(x, bias)
                                                                    : x.add(bias.to(x.scalar_type()));
}

}  // namespace lockstep::nn
