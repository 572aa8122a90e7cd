#include "cli/common/version.h"

#include "version_info.h"

namespace lockstep::cli {

VersionInfo version_info() {
  return {.version = LOCKSTEP_VERSION,
          .commit = LOCKSTEP_COMMIT,
          .libtorch = LOCKSTEP_TORCH_VERSION,
          .cuda = LOCKSTEP_CUDA_VERSION,
          .nccl = LOCKSTEP_NCCL_VERSION};
}

}  // namespace lockstep::cli
