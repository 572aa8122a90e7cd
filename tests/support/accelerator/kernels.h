#pragma once
#include <ATen/core/TensorBody.h>
#include <c10/core/Storage.h>

namespace lockstep::tests::accelerator {

/// Operators of the simulated device: memory, copies and views are its own; all others run on the CPU's kernels, on the
/// same memory.
void register_kernels();
/// Autocast as CUDA's.
void register_autocast();

/// The same memory as a CPU tensor, where the device reaches it.
at::Tensor on_device_side(const at::Tensor& tensor);
void resize_storage(const c10::Storage& storage, size_t bytes);

}  // namespace lockstep::tests::accelerator
