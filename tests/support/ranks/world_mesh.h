#pragma once
#include "comm/mesh.h"
#include "comm/world.h"

namespace lockstep::tests {

/// The groups of a mesh over all ranks of a world. Collective.
inline comm::Mesh mesh_of(comm::World& world, const plan::MeshLayout& layout) {
  return comm::Mesh(layout, world.rank(), [&world](const std::string& axis, const std::vector<int>& ranks) {
    return world.group(axis, ranks);
  });
}

}  // namespace lockstep::tests
