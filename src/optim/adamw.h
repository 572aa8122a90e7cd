#pragma once
#include <ATen/core/TensorBody.h>

#include <string>
#include <vector>

#include "optim/adam_moments.h"
#include "optim/optimizer.h"

namespace lockstep::optim {

struct AdamWConfig {
  double beta1 = 0.9;
  double beta2 = 0.98;
  double epsilon = 1e-6;
  double weight_decay = 0.2;  ///< Of group 1.
};

/// AdamW (Loshchilov & Hutter 2019), one fused call per decay group and type. Its state: exp_avg, exp_avg_sq, step.
///
/// A gradient whose strides are not the parameter's is copied first: the fused kernel pairs memory, not indices. Where
/// copies would take more than 256 MB at once, a group takes several calls.
class AdamW final : public Optimizer {
 public:
  AdamW(std::vector<Segment> segments, const AdamWConfig& config);

  void step(double lr, const at::Tensor& grad_divisor = {}, const at::Tensor& found_inf = {}) override;
  std::vector<SegmentState> state() const override { return moments_.state(segments()); }
  std::vector<std::string> state_names() const override { return AdamMoments::names(); }

 private:
  AdamWConfig config_;
  AdamMoments moments_;
};

}  // namespace lockstep::optim
