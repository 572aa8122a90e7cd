#pragma once
#include <ATen/core/TensorBody.h>
#include <sys/types.h>

#include <cstdint>

namespace lockstep::bench {

/// Most memory that this process has held so far: resident on the CPU, in LibTorch's allocator on an accelerator.
int64_t peak_memory_bytes(at::Device device);

/// Resident memory of a process now; 0 when it is gone.
int64_t resident_bytes(pid_t pid);

}  // namespace lockstep::bench
