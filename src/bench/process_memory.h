#pragma once
#include <ATen/core/TensorBody.h>
#include <sys/types.h>

#include <cstdint>

namespace lockstep::bench {

/// Most memory that this process has held so far: on the CPU resident but for pages of files (libraries), which the
/// kernel can drop; in LibTorch's allocator on an accelerator.
int64_t peak_memory_bytes(at::Device device);

/// Memory of a process now that is no page of a file: its own, not that of the libraries, which the kernel can drop and
/// of which a process that ends reads many more. 0 when the process is gone.
int64_t anonymous_bytes(pid_t pid);

}  // namespace lockstep::bench
