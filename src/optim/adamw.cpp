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
    : Optimizer(std::move(segments)), config_(config), moments_(this->segments()) {}

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
        exp_avgs.push_back(moments_.exp_avgs[i]);
        exp_avg_sqs.push_back(moments_.exp_avg_sqs[i]);
        steps.push_back(moments_.steps[i]);
      }
      at::_foreach_add_(steps, 1);
      at::_fused_adamw_(parameters, updates, exp_avgs, exp_avg_sqs, /*max_exp_avg_sqs=*/{}, steps, lr * group.lr_scale,
                        config_.beta1, config_.beta2, group.decays ? config_.weight_decay : 0.0, config_.epsilon,
                        /*amsgrad=*/false,
                        /*maximize=*/false, optional(grad_divisor), optional(found_inf));
      if (found_inf.defined()) at::_foreach_sub_(steps, std::vector<at::Tensor>(steps.size(), found_inf));
    }
  }
  clamp_to_bounds();
}

}  // namespace lockstep::optim
