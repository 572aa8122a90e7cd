#include "optim/split_optimizer.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <iterator>

namespace lockstep::optim {
namespace {

std::vector<Segment> segments_where(const std::vector<Segment>& segments, bool is_pretrained) {
  std::vector<Segment> out;
  std::copy_if(segments.begin(), segments.end(), std::back_inserter(out),
               [&](const Segment& segment) { return segment.is_pretrained == is_pretrained; });
  return out;
}

}  // namespace

SplitOptimizer::SplitOptimizer(std::vector<Segment> segments, const OptimizerConfig& others,
                               const PretrainedUpdate& pretrained)
    : Optimizer(std::move(segments)), others_(make_optimizer(others, segments_where(this->segments(), false))),
      pretrained_(make_optimizer(pretrained.config, segments_where(this->segments(), true))),
      pretrained_lr_scale_(pretrained.lr_scale) {}

void SplitOptimizer::step(double lr, const at::Tensor& grad_divisor, const at::Tensor& found_inf) {
  others_->step(lr, grad_divisor, found_inf);
  pretrained_->step(lr * pretrained_lr_scale_, grad_divisor, found_inf);
}

std::vector<SegmentState> SplitOptimizer::state() const {
  const auto of_others = others_->state(), of_pretrained = pretrained_->state();
  auto other = of_others.begin(), pretrained = of_pretrained.begin();
  std::vector<SegmentState> out;
  for (const Segment& segment : segments()) out.push_back(segment.is_pretrained ? *pretrained++ : *other++);
  return out;
}

}  // namespace lockstep::optim
