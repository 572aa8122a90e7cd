#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "comm/backend.h"

namespace lockstep::tests::accelerator {

struct StreamGroup {
  std::string name;
  std::chrono::milliseconds timeout{};  ///< A call that takes longer is an error, which find_error() tells.
  std::function<void()> on_abort = {};  ///< Called by each abort.
};

/// Collectives of a simulated device, as NCCL's: on a stream of the group's own, in the order of the calls; a call
/// waits, on that stream, for what the current stream has been given so far; waiting for it makes the current stream
/// wait, not the host. One that the other ranks never join never ends, whatever `transport` says of it, unless the
/// group is aborted. `transport` moves the bytes, on the CPU.
std::unique_ptr<comm::Backend> make_stream_backend(std::unique_ptr<comm::Backend> transport, int device,
                                                   StreamGroup group);

}  // namespace lockstep::tests::accelerator
