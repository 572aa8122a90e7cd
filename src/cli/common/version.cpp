#include "cli/common/version.h"

#include "version_info.h"

namespace lockstep::cli {

VersionInfo version_info() {
  // Volatile: the text then stands in the file of the program as it is, for strings(1) and tests that patch a copy.
  static const char* volatile const commit = LOCKSTEP_COMMIT;
  return {.version = LOCKSTEP_VERSION,
          .commit = commit,
          .libtorch = LOCKSTEP_TORCH_VERSION,
          .cuda = LOCKSTEP_CUDA_VERSION,
          .nccl = LOCKSTEP_NCCL_VERSION};
}

}  // namespace lockstep::cli
