#pragma once
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "plan/mesh_layout.h"

namespace lockstep::comm {

/// One group per axis, as this rank sees them. An axis of size 1 has a group of one.
class Mesh {
 public:
  /// Builds the group of a name and a list of global ranks, of which this rank is one; every rank of the list calls it
  /// in the same order. Behind a slash stands what tells two groups of one axis apart: their axis is what is before.
  using MakeGroup = std::function<Comm(const std::string& name, const std::vector<int>& global_ranks)>;

  /// Collective over all ranks of the layout.
  Mesh(const plan::MeshLayout& layout, int rank, const MakeGroup& make_group);

  const plan::MeshLayout& layout() const { return layout_; }
  plan::MeshPoint point() const { return point_; }
  Comm& axis(plan::Axis axis) { return axes_[static_cast<size_t>(axis)]; }
  Comm& pp() { return axis(plan::Axis::kPipeline); }
  Comm& dp() { return axis(plan::Axis::kData); }
  Comm& tp() { return axis(plan::Axis::kTensor); }

 private:
  plan::MeshLayout layout_;
  plan::MeshPoint point_;
  std::array<Comm, plan::kNumAxes> axes_;
};

}  // namespace lockstep::comm
