#pragma once
#include <memory>
#include <string>
#include <vector>

#include "optim/make_optimizer.h"
#include "optim/optimizer.h"

namespace lockstep::optim {

/// How pretrained parameters are updated.
struct PretrainedUpdate {
  OptimizerConfig config = {};
  double lr_scale = 1;  ///< Times the learning rate of a step.
};

/// Two optimisers, one for the pretrained parameters (Segment::is_pretrained) and one for the others. Both get every
/// step; the state is that of both, in segment order.
class SplitOptimizer final : public Optimizer {
 public:
  SplitOptimizer(std::vector<Segment> segments, const OptimizerConfig& others, const PretrainedUpdate& pretrained);

  void step(double lr, const at::Tensor& grad_divisor = {}, const at::Tensor& found_inf = {}) override;
  std::vector<SegmentState> state() const override;
  std::vector<std::string> state_names() const override { return others_->state_names(); }

 private:
  std::unique_ptr<Optimizer> others_, pretrained_;
  double pretrained_lr_scale_;
};

}  // namespace lockstep::optim
