#include "comm/mesh_groups.h"

namespace lockstep::comm {

MeshGroups make_mesh_groups(const plan::MeshLayout& layout, Comm& world, const Mesh::MakeGroup& make_group) {
  const int rank = world.rank();
  MeshGroups groups{world, Mesh(layout, rank, make_group), Comm(), Comm()};
  const std::vector<int> stages = layout.group_of(rank, plan::Axis::kPipeline);
  groups.back = make_group("pp/back", stages);
  if (stages.size() > 1 && (rank == stages.front() || rank == stages.back()))
    groups.ends = make_group("embedding", {stages.front(), stages.back()});
  return groups;
}

}  // namespace lockstep::comm
