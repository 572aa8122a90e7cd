#include <nccl.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "comm/backend_nccl.h"
#include "comm/c10d_internal.h"
#include "comm/store_internal.h"

namespace lockstep::comm {

// ProcessGroupNCCL::Options holds an ncclConfig_t by value: its layout must be that of the NCCL that LibTorch was built
// with.
static_assert(NCCL_VERSION_CODE == NCCL_VERSION(2, 28, 9));

std::unique_ptr<Backend> make_nccl_backend(const Store& store, int rank, int size, const NcclOptions& options) {
  auto nccl_options = c10d::ProcessGroupNCCL::Options::create();
  nccl_options->timeout = options.timeout;
  nccl_options->group_name = options.group_name;
  auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(store.impl().store, rank, size, nccl_options);
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(options.device_index));
  group->eagerConnectSingleDevice(device);
  return std::make_unique<C10dBackend>(std::move(group), device, /*abandon_on_failure=*/true);
}

}  // namespace lockstep::comm
