#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include "nn/gradient_sink.h"

namespace lockstep::nn::internal {

/// A linear layer's use of its weight, kept in the graph from the forward to the backward pass.
struct WeightUse : torch::CustomClassHolder {
  explicit WeightUse(const at::Tensor& weight) {
    if (GradientSink* sink = gradient_sink_of(weight)) use = sink->expect();
  }
  GradientSink::Use use;
};

inline void keep_use(torch::autograd::AutogradContext* context, const at::Tensor& weight) {
  context->saved_data["weight_use"] = c10::IValue::make_capsule(c10::make_intrusive<WeightUse>(weight));
}
inline c10::intrusive_ptr<WeightUse> kept_use(torch::autograd::AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<WeightUse>(context->saved_data["weight_use"].toCapsule());
}

/// `weight` [..., in] as the factor [out, in] of a layer whose input is x: in x's type under autocast.
at::Tensor weight_like(const at::Tensor& x, const at::Tensor& weight);
/// Any parameter in x's type under autocast.
at::Tensor parameter_like(const at::Tensor& x, const at::Tensor& parameter);

/// out_gradient^t x, of the weight's shape and type; added to the weight's sink, and undefined, where it has one.
at::Tensor weight_gradient(WeightUse& use, const at::Tensor& weight, const at::Tensor& out_gradient_NO,
                           const at::Tensor& x_NI);

}  // namespace lockstep::nn::internal
