#pragma once
#include <ATen/core/TensorBody.h>

#include <string>
#include <vector>

#include "optim/optimizer.h"

namespace lockstep::optim {

struct LionConfig {
  double beta1 = 0.9;         ///< Of the sign's argument: m beta1 + g (1 - beta1).
  double beta2 = 0.99;        ///< Decay of the momentum m.
  double weight_decay = 0.2;  ///< Of group 1.
};

/// Lion (Chen et al. 2023): w <- (1 - lr wd) w - lr sign(beta1 m + (1 - beta1) g), then m <- beta2 m + (1 - beta2) g.
/// Its state: exp_avg.
class Lion final : public Optimizer {
 public:
  Lion(std::vector<Segment> segments, const LionConfig& config);

  void step(double lr, const at::Tensor& grad_divisor = {}, const at::Tensor& found_inf = {}) override;
  std::vector<SegmentState> state() const override;
  std::vector<std::string> state_names() const override { return {"exp_avg"}; }

 private:
  LionConfig config_;
  std::vector<at::Tensor> exp_avgs_;
};

}  // namespace lockstep::optim
