#include "optim/segment_groups.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "core/error.h"

namespace lockstep::optim {

std::vector<SegmentGroup> group_segments(const std::vector<Segment>& segments,
                                         const std::vector<at::Tensor>& gradients) {
  std::vector<SegmentGroup> groups;
  for (size_t i = 0; i < segments.size(); ++i) {
    const auto& segment = segments[i];
    if (!gradients[i].defined()) continue;
    LOCKSTEP_CHECK(gradients[i].sizes() == segment.parameter.sizes(),
                   "gradient of '{}' has another shape than its parameter", segment.name);
    const auto type = segment.parameter.scalar_type();
    const auto device = segment.parameter.device();
    const auto is_alike = [&](const SegmentGroup& group) {
      return group.decays == segment.decays && group.lr_scale == segment.lr_scale && group.type == type &&
             group.device == device;
    };
    auto group = std::find_if(groups.begin(), groups.end(), is_alike);
    if (group == groups.end())
      group = groups.insert(
          groups.end(),
          SegmentGroup{.decays = segment.decays, .lr_scale = segment.lr_scale, .type = type, .device = device});
    group->segments.push_back(i);
  }
  return groups;
}

at::Tensor matched_gradient(const at::Tensor& gradient, const at::Tensor& parameter) {
  if (gradient.strides() == parameter.strides() && gradient.scalar_type() == parameter.scalar_type()) return gradient;
  auto copy = at::empty_strided(parameter.sizes(), parameter.strides(), parameter.options());
  return copy.copy_(gradient);
}

}  // namespace lockstep::optim
