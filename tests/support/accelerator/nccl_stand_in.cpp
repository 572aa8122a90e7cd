// Takes the place of src/comm/backend_nccl_cuda.cpp in programs that are linked with it.
#include "comm/backend_gloo.h"
#include "comm/backend_nccl.h"
#include "support/accelerator/stream_backend.h"

namespace lockstep::comm {

std::unique_ptr<Backend> make_nccl_backend(const Store& store, int rank, int size, const NcclOptions& options) {
  return tests::accelerator::make_stream_backend(
      make_gloo_backend(store, rank, size, {.timeout = options.timeout, .abandon_on_failure = true}),
      options.device_index, options.group_name);
}

}  // namespace lockstep::comm
