#pragma once
#include <ATen/core/TensorBody.h>

#include <string>
#include <vector>

#include "optim/optimizer.h"

namespace lockstep::optim {

/// What AdamW and LAMB keep of each segment, in segment order; zeros at first.
struct AdamMoments {
  explicit AdamMoments(const std::vector<Segment>& segments);
  std::vector<SegmentState> state(const std::vector<Segment>& segments) const;
  static std::vector<std::string> names() { return {"exp_avg", "exp_avg_sq", "step"}; }

  std::vector<at::Tensor> exp_avgs, exp_avg_sqs;
  std::vector<at::Tensor> steps;  ///< 0-dim fp32: updates so far.
};

}  // namespace lockstep::optim
