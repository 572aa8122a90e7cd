#include "optim/adam_moments.h"

#include <ATen/ATen.h>

namespace lockstep::optim {

AdamMoments::AdamMoments(const std::vector<Segment>& segments) {
  for (const Segment& segment : segments) {
    const auto parameter = segment.parameter.detach();
    exp_avgs.push_back(at::zeros_like(parameter));
    exp_avg_sqs.push_back(at::zeros_like(parameter));
    steps.push_back(at::zeros({}, parameter.options().dtype(at::kFloat)));
  }
}

std::vector<SegmentState> AdamMoments::state(const std::vector<Segment>& segments) const {
  std::vector<SegmentState> out;
  for (size_t i = 0; i < segments.size(); ++i)
    out.push_back({.name = segments[i].name,
                   .tensors = {{"exp_avg", exp_avgs[i]}, {"exp_avg_sq", exp_avg_sqs[i]}},
                   .scalars = {{"step", steps[i]}}});
  return out;
}

}  // namespace lockstep::optim
