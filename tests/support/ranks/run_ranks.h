#pragma once
#include <functional>

#include "comm/comm.h"
#include "comm/mesh.h"
#include "comm/mesh_groups.h"

namespace lockstep::tests {

enum class ThreadBackend { kLocal, kGloo };

/// Runs `body` on `num_ranks` threads that act as ranks of one group, and rethrows the first exception after all have
/// ended; that exception unblocks the others. Each thread computes with one OpenMP thread. What must not happen inside,
/// because LibTorch keeps it per process: draws from the default generator, manual_seed, switches of the global
/// context.
void run_ranks(int num_ranks, const std::function<void(comm::Comm&)>& body,
               ThreadBackend backend = ThreadBackend::kLocal);

/// The same for the ranks of a mesh, over the local backend.
void run_mesh(const plan::MeshLayout& layout, const std::function<void(comm::Mesh&)>& body);
/// The same with all groups of a model, over either backend.
void run_mesh_groups(const plan::MeshLayout& layout, const std::function<void(comm::MeshGroups&)>& body,
                     ThreadBackend backend = ThreadBackend::kLocal);

}  // namespace lockstep::tests
