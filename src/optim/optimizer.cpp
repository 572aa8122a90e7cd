#include "optim/optimizer.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "core/error.h"

namespace lockstep::optim {

const at::Tensor& SegmentState::at(std::string_view state_name) const {
  for (const auto* named : {&tensors, &scalars})
    for (const auto& [key, tensor] : *named)
      if (key == state_name) return tensor;
  LOCKSTEP_CHECK(false, "segment '{}' has no state '{}'", name, state_name);
}

Optimizer::Optimizer(std::vector<Segment> segments) : segments_(std::move(segments)) {
  for (const auto& segment : segments_)
    LOCKSTEP_CHECK(segment.parameter.defined() && segment.parameter.is_non_overlapping_and_dense(), "segment '{}'",
                   segment.name);
}

std::vector<at::Tensor> Optimizer::gradients() const {
  std::vector<at::Tensor> out;
  for (const auto& segment : segments_)
    out.push_back(segment.gradient.defined() ? segment.gradient : segment.parameter.grad());
  return out;
}

void Optimizer::clamp_to_bounds() const {
  const c10::NoGradGuard no_grad;
  for (const Segment& segment : segments_)
    if (segment.bounds) segment.parameter.detach().clamp_(segment.bounds->first, segment.bounds->second);
}

}  // namespace lockstep::optim
