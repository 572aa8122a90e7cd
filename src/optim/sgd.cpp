#include "optim/sgd.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "optim/segment_groups.h"

namespace lockstep::optim {
namespace {

std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

}  // namespace

Sgd::Sgd(std::vector<Segment> segments, const SgdConfig& config) : Optimizer(std::move(segments)), config_(config) {
  if (config.momentum == 0) return;
  for (const Segment& segment : this->segments())
    momentum_buffers_.push_back(at::zeros_like(segment.parameter.detach()));
}

void Sgd::step(double lr, const at::Tensor& grad_divisor, const at::Tensor& found_inf) {
  const c10::NoGradGuard no_grad;
  const auto all_gradients = gradients();
  for (const SegmentGroup& group : group_segments(segments(), all_gradients)) {
    std::vector<at::Tensor> parameters, updates, buffers;
    for (const size_t i : group.segments) {
      parameters.push_back(segments()[i].parameter.detach());
      updates.push_back(matched_gradient(all_gradients[i].detach(), parameters.back()));
      if (!momentum_buffers_.empty()) buffers.push_back(momentum_buffers_[i]);
    }
    at::_fused_sgd_(parameters, updates, buffers, group.decays ? config_.weight_decay : 0.0, config_.momentum,
                    lr * group.lr_scale,
                    /*dampening=*/0.0, config_.nesterov, /*maximize=*/false, /*is_first_step=*/false,
                    if_defined(grad_divisor), if_defined(found_inf));
  }
  clamp_to_bounds();
}

std::vector<SegmentState> Sgd::state() const {
  std::vector<SegmentState> out;
  for (size_t i = 0; i < segments().size(); ++i) {
    out.push_back({.name = segments()[i].name});
    if (!momentum_buffers_.empty()) out.back().tensors = {{"momentum_buffer", momentum_buffers_[i]}};
  }
  return out;
}

std::vector<std::string> Sgd::state_names() const {
  if (config_.momentum == 0) return {};
  return {"momentum_buffer"};
}

}  // namespace lockstep::optim
