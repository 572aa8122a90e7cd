#include "optim/lamb.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>

#include "optim/grad_norm.h"
#include "optim/unfused.h"

namespace lockstep::optim {

Lamb::Lamb(std::vector<Segment> segments, const LambConfig& config)
    : Optimizer(std::move(segments)), config_(config), moments_(this->segments()) {}

void Lamb::step(double lr, const at::Tensor& grad_divisor, const at::Tensor& found_inf) {
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> updates = gradients();
  for (size_t i = 0; i < updates.size(); ++i)
    if (updates[i].defined())
      updates[i] = finite_gradient(updates[i], segments()[i].parameter.detach(), grad_divisor, found_inf);
  const at::Tensor clip = (squared_norm(updates).sqrt() / config_.max_grad_norm).clamp_min(1.0);
  for (size_t i = 0; i < updates.size(); ++i) {
    if (!updates[i].defined()) continue;
    const at::Tensor parameter = segments()[i].parameter.detach();
    const at::Tensor keep = update_weight(parameter, found_inf);
    const at::Tensor direction = update_direction(i, updates[i] / clip.to(parameter.scalar_type()), keep);
    parameter.sub_(direction.mul_(keep * (lr * segments()[i].lr_scale)));
  }
  clamp_to_bounds();
}

at::Tensor Lamb::update_direction(size_t index, const at::Tensor& gradient, const at::Tensor& keep) {
  const at::Tensor parameter = segments()[index].parameter.detach();
  moments_.exp_avgs[index].lerp_(gradient, keep * (1 - config_.beta1));
  moments_.exp_avg_sqs[index].lerp_(gradient * gradient, keep * (1 - config_.beta2));
  moments_.steps[index].add_(keep.to(at::kFloat));
  const at::Tensor step =
      moments_.steps[index].to(at::kDouble).clamp_min(1.0);  // a first step that is skipped divides by no 0
  const auto correction = [&](double beta) { return 1 - at::exp(step * std::log(beta)); };
  const at::Tensor denominator =
      (moments_.exp_avg_sqs[index].sqrt() / correction(config_.beta2).sqrt().to(parameter.scalar_type()))
          .add_(config_.epsilon);
  at::Tensor direction =
      (moments_.exp_avgs[index] / correction(config_.beta1).to(parameter.scalar_type())).div_(denominator);
  if (!segments()[index].decays || config_.weight_decay == 0) return direction;
  direction.add_(parameter, config_.weight_decay);
  const at::Tensor of_parameter = at::linalg_vector_norm(parameter), of_direction = at::linalg_vector_norm(direction);
  const at::Tensor has_ratio = of_parameter.gt(0).logical_and(of_direction.gt(0));
  return direction.mul_(at::where(has_ratio, of_parameter / of_direction, at::ones_like(of_parameter)));
}

}  // namespace lockstep::optim
