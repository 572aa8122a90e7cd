#include "optim/averaged.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <utility>

namespace lockstep::optim {
namespace {

std::vector<Segment> with_buffers(std::vector<Segment> segments, const std::vector<comm::NamedTensor>& buffers) {
  for (const auto& [name, tensor] : buffers)
    if (tensor->is_floating_point()) segments.push_back({.name = name, .parameter = tensor->detach()});
  return segments;
}

}  // namespace

AveragedOptimizer::AveragedOptimizer(std::unique_ptr<Optimizer> inner, const std::vector<comm::NamedTensor>& buffers,
                                     const AverageConfig& config)
    : Optimizer(with_buffers(inner->segments(), buffers)), inner_(std::move(inner)), config_(config) {
  const c10::NoGradGuard no_grad;
  for (const Segment& segment : segments()) {
    averages_.push_back(segment.parameter.detach().clone());
    counts_.push_back(at::zeros({}, segment.parameter.options().dtype(at::kFloat).requires_grad(false)));
  }
}

void AveragedOptimizer::step(double lr, const at::Tensor& grad_divisor, const at::Tensor& found_inf) {
  const c10::NoGradGuard no_grad;
  inner_->step(lr, grad_divisor, found_inf);
  if (counts_.empty()) return;
  if (num_steps_ < 0) num_steps_ = counts_.front().item<int64_t>();  // sync: once, what a checkpoint has put there
  const int64_t step = num_steps_++;
  at::_foreach_add_(counts_, at::Scalar(1));
  const int64_t of_epoch = step % config_.steps_per_epoch;
  if (of_epoch % config_.steps_per_update != 0) return;
  // The update before this one lay in the same epoch, or was the last one of the epoch before.
  const int64_t last_of_epoch = (config_.steps_per_epoch - 1) / config_.steps_per_update * config_.steps_per_update;
  const int64_t before =
      of_epoch > 0 ? step - config_.steps_per_update : step - config_.steps_per_epoch + last_of_epoch;
  update_averages(/*is_copy=*/before < config_.num_copied_steps);
}

void AveragedOptimizer::update_averages(bool is_copy) {
  for (size_t i = 0; i < averages_.size(); ++i) {
    const at::Tensor value = segments()[i].parameter.detach();
    if (is_copy)
      averages_[i].copy_(value);
    else
      averages_[i].mul_(config_.decay).add_(value, 1 - config_.decay);
  }
}

std::vector<SegmentState> AveragedOptimizer::state() const {
  std::vector<SegmentState> out = inner_->state();
  for (size_t i = 0; i < averages_.size(); ++i) {
    if (i == out.size()) out.push_back({.name = segments()[i].name});
    out[i].tensors.emplace_back(kAverageState, averages_[i]);
    out[i].scalars.emplace_back("ema_steps", counts_[i]);
  }
  return out;
}

std::vector<std::string> AveragedOptimizer::state_names() const {
  std::vector<std::string> names = inner_->state_names();
  names.insert(names.end(), {kAverageState, "ema_steps"});
  return names;
}

void AveragedOptimizer::swap_averages() {
  const c10::NoGradGuard no_grad;
  for (size_t i = 0; i < averages_.size(); ++i) {
    const at::Tensor value = segments()[i].parameter.detach(), kept = value.clone();
    value.copy_(averages_[i]);
    averages_[i].copy_(kept);
  }
}

}  // namespace lockstep::optim
