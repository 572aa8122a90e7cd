#pragma once
#include <ATen/core/TensorBody.h>

#include <string>
#include <vector>

#include "optim/adam_moments.h"
#include "optim/optimizer.h"

namespace lockstep::optim {

struct LambConfig {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.2;   ///< Of group 1.
  double max_grad_norm = 1.0;  ///< Gradients are divided by max(1, norm of all / this) first.
};

/// LAMB (You et al. 2020) as timm has it: AdamW's direction plus decay, scaled for each decaying tensor by
/// |w| / |direction| (1 where one of them is 0). What does not decay is not scaled. Its state is that of AdamW.
/// Segments must be whole parameters, and all of a model, because norms are read.
class Lamb final : public Optimizer {
 public:
  Lamb(std::vector<Segment> segments, const LambConfig& config);

  void step(double lr, const at::Tensor& grad_divisor = {}, const at::Tensor& found_inf = {}) override;
  std::vector<SegmentState> state() const override { return moments_.state(segments()); }
  std::vector<std::string> state_names() const override { return AdamMoments::names(); }

 private:
  at::Tensor update_direction(size_t index, const at::Tensor& gradient, const at::Tensor& keep);

  LambConfig config_;
  AdamMoments moments_;
};

}  // namespace lockstep::optim
