#pragma once
#include <ATen/core/TensorBody.h>

#include <string>
#include <vector>

#include "optim/optimizer.h"
#include "optim/sgd.h"

namespace lockstep::optim {

struct LarsConfig {
  SgdConfig sgd = {};
  double trust_coefficient = 1e-3;  ///< eta
};

/// LARS (You, Gitman & Ginsburg 2017): SGD with momentum over gradients that are scaled tensor by tensor, before the
/// momentum: g' = eta |w| / (|g| + wd |w|) (g + wd w); where |w| or |g| is 0 the factor is 1. What does not decay
/// (batch norm, biases) is plain SGD. Its state is that of Sgd. Segments must be whole parameters.
class Lars final : public Optimizer {
 public:
  Lars(std::vector<Segment> segments, const LarsConfig& config);
  void step(double lr, const at::Tensor& grad_divisor = {}, const at::Tensor& found_inf = {}) override;
  std::vector<SegmentState> state() const override { return sgd_.state(); }
  std::vector<std::string> state_names() const override { return sgd_.state_names(); }

 private:
  LarsConfig config_;
  Sgd sgd_;  // of the scaled gradients
};

}  // namespace lockstep::optim
