#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "comm/backend.h"
#include "comm/store.h"

namespace lockstep::comm {

struct NcclOptions {
  int device_index = 0;
  std::string group_name;  ///< For NCCL's own messages.
  std::chrono::milliseconds timeout{std::chrono::minutes(10)};
};

/// Collective over the ranks of the group, as make_gloo_backend. A build without CUDA throws EnvironmentError.
std::unique_ptr<Backend> make_nccl_backend(const Store& store, int rank, int size, const NcclOptions& options);

}  // namespace lockstep::comm
