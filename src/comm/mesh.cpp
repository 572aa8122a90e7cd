#include "comm/mesh.h"

#include "comm/backend.h"
#include "core/error.h"

namespace lockstep::comm {

Mesh::Mesh(const plan::MeshLayout& layout, int rank, const MakeGroup& make_group)
    : layout_(layout), point_(layout.point_of(rank)) {
  for (const plan::Axis axis : {plan::Axis::kPipeline, plan::Axis::kData, plan::Axis::kTensor}) {
    Comm& group = axes_[static_cast<size_t>(axis)];
    group = make_group(std::string(plan::axis_name(axis)), layout.group_of(rank, axis));
    LOCKSTEP_CHECK(group.size() == layout.size(axis) && group.rank() == point_.at(axis),
                   "comm: axis {} has rank {} of {}, expected={} of {}", plan::axis_name(axis), group.rank(),
                   group.size(), point_.at(axis), layout.size(axis));
  }
}

}  // namespace lockstep::comm
