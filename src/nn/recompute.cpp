#include "nn/recompute.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <utility>

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Compute = std::function<at::Tensor(const at::Tensor&)>;

struct AutocastState {
  bool enabled = false;
  at::ScalarType dtype = at::kFloat;
};

AutocastState autocast_state(c10::DeviceType device) {
  return {at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device)};
}

/// Sets the autocast state of a device type and takes the cache of weight casts out of use: a cast made while gradients
/// are off must not be found later by a call that needs its gradient.
class AutocastScope {
 public:
  AutocastScope(c10::DeviceType device, const AutocastState& state)
      : device_(device), outer_(autocast_state(device)), outer_cache_(at::autocast::is_autocast_cache_enabled()) {
    set(state);
    at::autocast::set_autocast_cache_enabled(false);
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;
  ~AutocastScope() {
    set(outer_);
    at::autocast::set_autocast_cache_enabled(outer_cache_);
  }

 private:
  void set(const AutocastState& state) const {
    at::autocast::set_autocast_enabled(device_, state.enabled);
    at::autocast::set_autocast_dtype(device_, state.dtype);
  }

  c10::DeviceType device_;
  AutocastState outer_;
  bool outer_cache_;
};

/// What the backward pass needs beside tensors; owned by the graph.
struct Recompute : torch::CustomClassHolder {
  Recompute(Compute function, AutocastState state) : compute(std::move(function)), autocast(state) {}
  Compute compute;
  AutocastState autocast;
};

struct RecomputedCall : torch::autograd::Function<RecomputedCall> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, at::TensorList parameters,
                            c10::intrusive_ptr<Recompute> recompute) {
    variable_list saved{x};
    saved.insert(saved.end(), parameters.begin(), parameters.end());
    context->save_for_backward(std::move(saved));
    context->saved_data["recompute"] = c10::IValue::make_capsule(recompute);
    const AutocastScope scope(x.device().type(), recompute->autocast);
    return recompute->compute(x);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto recompute = c10::static_intrusive_pointer_cast<Recompute>(context->saved_data["recompute"].toCapsule());
    variable_list inputs = context->get_saved_variables();
    const bool x_needs_gradient = inputs[0].requires_grad();
    const at::Tensor x = inputs[0].detach().requires_grad_(x_needs_gradient);
    at::Tensor y;
    {
      const at::AutoGradMode with_gradients(true);
      const AutocastScope scope(x.device().type(), recompute->autocast);
      y = recompute->compute(x);
    }
    variable_list wanted;
    std::vector<size_t> places;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].requires_grad()) continue;
      wanted.push_back(i == 0 ? x : inputs[i]);
      places.push_back(i);
    }
    variable_list found = torch::autograd::grad({y}, wanted, {gradients[0]}, /*retain_graph=*/false,
                                                /*create_graph=*/false, /*allow_unused=*/true);
    variable_list result(inputs.size() + 1);  // the last one belongs to `recompute`
    for (size_t i = 0; i < places.size(); ++i) result[places[i]] = std::move(found[i]);
    return result;
  }
};

}  // namespace

at::Tensor recomputed(Module& module, const at::Tensor& x, Compute compute) {
  return recomputed(std::vector<Module*>{&module}, x, std::move(compute));
}

at::Tensor recomputed(const std::vector<Module*>& modules, const at::Tensor& x, Compute compute) {
  if (!at::GradMode::is_enabled()) return compute(x);
  std::vector<at::Tensor> parameters;
  for (Module* module : modules)
    for (const NamedTensor& entry : module->named_parameters()) parameters.push_back(*entry.tensor);
  auto recompute = c10::make_intrusive<Recompute>(std::move(compute), autocast_state(x.device().type()));
  return RecomputedCall::apply(x, at::TensorList(parameters), std::move(recompute));
}

}  // namespace lockstep::nn
