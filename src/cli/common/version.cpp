#include "cli/common/version.h"

#include "core/strings.h"
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

int cuda_of_libtorch() { return static_cast<int>(core::parse_double(LOCKSTEP_CUDA_VERSION).value_or(0) * 1000 + 0.5); }

}  // namespace lockstep::cli
