#include "optim/adamw.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "optim/segment_groups.h"

namespace lockstep::optim {
namespace {

/// Copies of gradients that exist at a time, in bytes (one tensor may be larger).
constexpr int64_t kMostCopyBytes = int64_t{256} << 20;

std::optional<at::Tensor> optional(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

}  // namespace

AdamW::AdamW(std::vector<Segment> segments, const AdamWConfig& config)
    : Optimizer(std::move(segments)), config_(config) {
  for (const auto& segment : this->segments()) {
    const auto parameter = segment.parameter.detach();
    exp_avgs_.push_back(at::zeros_like(parameter));
    exp_avg_sqs_.push_back(at::zeros_like(parameter));
    steps_.push_back(at::zeros({}, parameter.options().dtype(at::kFloat)));
  }
}

void AdamW::step(double lr, const at::Tensor& grad_divisor, const at::Tensor& found_inf) {
  const c10::NoGradGuard no_grad;
  const auto all_gradients = gradients();
  for (const SegmentGroup& group : group_segments(segments(), all_gradients)) {
    for (size_t next = 0; next < group.segments.size();) {
      std::vector<at::Tensor> parameters, updates, exp_avgs, exp_avg_sqs, steps;
      for (int64_t copy_bytes = 0; next < group.segments.size() && copy_bytes < kMostCopyBytes; ++next) {
        const size_t i = group.segments[next];
        const auto gradient = all_gradients[i].detach();
        updates.push_back(matched_gradient(gradient, segments()[i].parameter));
        if (!updates.back().is_same(gradient)) copy_bytes += static_cast<int64_t>(updates.back().nbytes());
        parameters.push_back(segments()[i].parameter);
        exp_avgs.push_back(exp_avgs_[i]);
        exp_avg_sqs.push_back(exp_avg_sqs_[i]);
        steps.push_back(steps_[i]);
      }
      at::_foreach_add_(steps, 1);
      at::_fused_adamw_(parameters, updates, exp_avgs, exp_avg_sqs, /*max_exp_avg_sqs=*/{}, steps, lr, config_.beta1,
                        config_.beta2, group.decays ? config_.weight_decay : 0.0, config_.epsilon, /*amsgrad=*/false,
                        /*maximize=*/false, optional(grad_divisor), optional(found_inf));
      if (found_inf.defined()) at::_foreach_sub_(steps, std::vector<at::Tensor>(steps.size(), found_inf));
    }
  }
  clamp_to_bounds();
}

std::vector<SegmentState> AdamW::state() const {
  std::vector<SegmentState> out;
  for (size_t i = 0; i < segments().size(); ++i)
    out.push_back({.name = segments()[i].name,
                   .tensors = {{"exp_avg", exp_avgs_[i]}, {"exp_avg_sq", exp_avg_sqs_[i]}},
                   .scalars = {{"step", steps_[i]}}});
  return out;
}

std::vector<std::string> AdamW::state_names() const { return {"exp_avg", "exp_avg_sq", "step"}; }

}  // namespace lockstep::optim
