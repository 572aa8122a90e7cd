#include "optim/lars.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

namespace lockstep::optim {
namespace {

/// What Sgd is to do with gradients that have their decay already.
SgdConfig without_decay(SgdConfig config) {
  config.weight_decay = 0;
  return config;
}

}  // namespace

Lars::Lars(std::vector<Segment> segments, const LarsConfig& config)
    : Optimizer(std::move(segments)), config_(config), sgd_(this->segments(), without_decay(config.sgd)) {}

void Lars::step(double lr, const at::Tensor& grad_divisor, const at::Tensor& found_inf) {
  const c10::NoGradGuard no_grad;
  const auto all_gradients = gradients();
  const double decay = config_.sgd.weight_decay;
  for (size_t i = 0; i < segments().size(); ++i) {
    if (!all_gradients[i].defined()) continue;
    const at::Tensor gradient = all_gradients[i].detach();
    if (grad_divisor.defined()) gradient.div_(grad_divisor);
    if (!segments()[i].decays) continue;
    const at::Tensor parameter = segments()[i].parameter.detach();
    const at::Tensor of_parameter = at::linalg_vector_norm(parameter), of_gradient = at::linalg_vector_norm(gradient);
    const at::Tensor ratio = of_parameter * config_.trust_coefficient / (of_gradient + of_parameter * decay);
    const at::Tensor has_ratio = of_parameter.gt(0).logical_and(of_gradient.gt(0));
    gradient.add_(parameter, decay).mul_(at::where(has_ratio, ratio, at::ones_like(ratio)));
  }
  sgd_.step(lr, {}, found_inf);
}

}  // namespace lockstep::optim
