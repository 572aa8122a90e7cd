#include "comm/backend_nccl.h"
#include "core/error.h"

namespace lockstep::comm {

std::unique_ptr<Backend> make_nccl_backend(const Store& store, int rank, int size, const NcclOptions& options) {
  static_cast<void>(store);
  throw EnvironmentError(fmt::format("comm: NCCL was asked for (group '{}', rank {} of {}), but this build has no CUDA",
                                     options.group_name, rank, size),
                         "use --dist-backend gloo, or build against a LibTorch with CUDA");
}

}  // namespace lockstep::comm
