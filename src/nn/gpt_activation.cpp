#include "nn/gpt_activation.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/error.h"
#include "nn/gpu_kernels.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// silu(gate) * up, which keeps its input and nothing else for the backward pass.
struct Swiglu : torch::autograd::Function<Swiglu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    if (suits_gpu_swiglu(x)) return swiglu_on_gpu(x);
    const int64_t half = x.size(-1) / 2;
    return at::silu(x.narrow(-1, 0, half)).mul_(x.narrow(-1, half, half));
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    if (suits_gpu_swiglu(x)) return {swiglu_backward_on_gpu(x, gradients[0])};
    const int64_t half = x.size(-1) / 2;
    const at::Tensor gate = x.narrow(-1, 0, half), up = x.narrow(-1, half, half);
    const at::Tensor result = at::empty_like(x);
    at::Tensor gate_gradient = result.narrow(-1, 0, half), up_gradient = result.narrow(-1, half, half);
    at::silu_backward_out(gate_gradient, gradients[0].mul(up), gate);
    up_gradient.copy_(at::silu(gate).mul_(gradients[0]));
    return {result};
  }
};

}  // namespace

at::Tensor activate(const at::Tensor& x, config::GptActivation activation) {
  switch (activation) {
    case config::GptActivation::kGelu: return at::gelu(x);
    case config::GptActivation::kGeluTanh: return at::gelu(x, "tanh");
    case config::GptActivation::kSquaredRelu: return at::relu(x).square();
    case config::GptActivation::kSwiglu: return Swiglu::apply(x);
  }
  LOCKSTEP_CHECK(false, "activation {}", static_cast<int>(activation));
}

}  // namespace lockstep::nn
