#pragma once
#include <ATen/core/TensorBody.h>

#include <string>
#include <vector>

#include "optim/optimizer.h"

namespace lockstep::optim {

struct SgdConfig {
  double momentum = 0.9;
  double weight_decay = 1e-4;  ///< Of group 1; added to the gradient (L2), as in torch.
  bool nesterov = false;
};

/// torch's SGD with momentum and without dampening, one fused call per decay group and type: g += wd w; v = m v + g;
/// w -= lr v (nesterov: w -= lr (g + m v)). Its state: momentum_buffer, v before the first step being
/// 0; without momentum none.
class Sgd final : public Optimizer {
 public:
  Sgd(std::vector<Segment> segments, const SgdConfig& config);

  void step(double lr, const at::Tensor& grad_divisor = {}, const at::Tensor& found_inf = {}) override;
  std::vector<SegmentState> state() const override;
  std::vector<std::string> state_names() const override;

 private:
  SgdConfig config_;
  std::vector<at::Tensor> momentum_buffers_;
};

}  // namespace lockstep::optim
