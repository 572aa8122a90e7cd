#pragma once
#include "comm/comm.h"
#include "comm/mesh.h"

namespace lockstep::comm {

/// The groups that a model on a mesh works with.
struct MeshGroups {
  Comm& world;  ///< All ranks; outlives the groups.
  Mesh mesh;
  Comm back;  ///< "pp/back": the stages once more, for gradients of activations: they never queue behind activations.
  Comm ends;  ///< "embedding": first and last stage of the rank's pipeline, which may hold copies of one embedding; a
              ///< group of one on other stages.
};

/// Collective over all ranks of the layout.
MeshGroups make_mesh_groups(const plan::MeshLayout& layout, Comm& world, const Mesh::MakeGroup& make_group);

}  // namespace lockstep::comm
