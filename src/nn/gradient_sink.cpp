#include "nn/gradient_sink.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

namespace lockstep::nn {

GradientSink::Use GradientSink::expect() {
  ++*num_expected_;
  return {num_expected_.get(), [count = num_expected_](void*) { --*count; }};
}

void GradientSink::end(Use& use) {
  added();
  use.reset();
  if (*num_expected_ == 0) is_complete();
}

GradientSink* gradient_sink_of(const at::Tensor& parameter) {
  if (!parameter.requires_grad() || !parameter.is_leaf()) return nullptr;
  return dynamic_cast<GradientSink*>(torch::autograd::impl::post_acc_grad_hooks(parameter).get());
}

}  // namespace lockstep::nn
