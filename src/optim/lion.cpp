#include "optim/lion.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "optim/unfused.h"

namespace lockstep::optim {

Lion::Lion(std::vector<Segment> segments, const LionConfig& config) : Optimizer(std::move(segments)), config_(config) {
  for (const Segment& segment : this->segments()) exp_avgs_.push_back(at::zeros_like(segment.parameter.detach()));
}

void Lion::step(double lr, const at::Tensor& grad_divisor, const at::Tensor& found_inf) {
  const c10::NoGradGuard no_grad;
  const auto all_gradients = gradients();
  for (size_t i = 0; i < segments().size(); ++i) {
    if (!all_gradients[i].defined()) continue;
    const at::Tensor parameter = segments()[i].parameter.detach();
    const at::Tensor gradient = finite_gradient(all_gradients[i], parameter, grad_divisor, found_inf);
    const at::Tensor keep = update_weight(parameter, found_inf);
    const at::Tensor direction = exp_avgs_[i].lerp(gradient, 1 - config_.beta1).sign_();
    const double own_lr = lr * segments()[i].lr_scale;
    if (segments()[i].decays) parameter.sub_(parameter * (keep * (own_lr * config_.weight_decay)));
    parameter.sub_(direction.mul_(keep * own_lr));
    exp_avgs_[i].lerp_(gradient, keep * (1 - config_.beta2));
  }
  clamp_to_bounds();
}

std::vector<SegmentState> Lion::state() const {
  std::vector<SegmentState> out;
  for (size_t i = 0; i < segments().size(); ++i)
    out.push_back({.name = segments()[i].name, .tensors = {{"exp_avg", exp_avgs_[i]}}});
  return out;
}

}  // namespace lockstep::optim
