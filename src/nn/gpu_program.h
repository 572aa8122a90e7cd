#pragma once
#include <ATen/core/TensorBody.h>
#include <cuda_runtime_api.h>

#include <array>
#include <string>

namespace lockstep::nn::internal {

/// One instance of a kernel of gpu_kernels.cu as code for a GPU.
struct GpuCode {
  std::string code;    ///< A cubin, or PTX where NVRTC does not know the GPU yet.
  std::string symbol;  ///< The kernel's name in it.
};

/// `instance`: as in C++, "column_sums<float, Half>". `capability`: 90 for compute capability 9.0. Throws
/// EnvironmentError with NVRTC's own words where it is not there or refuses the source.
GpuCode compile_gpu_kernel(const std::string& instance, int capability);

/// What the environment says of own kernels: "auto" or "off", else UsageError.
bool wants_gpu_kernels(const std::string& word);

/// Compute capability of the current device, 90 for 9.0.
int gpu_capability();

/// A kernel with its template's arguments, all of them literals: an instance is made and found for each launch, which
/// must not take memory.
class KernelInstance {
 public:
  explicit KernelInstance(const char* kernel) : words_{kernel} {}
  KernelInstance& argument(const char* word);
  KernelInstance& type(at::ScalarType type);  ///< fp32, fp16 or bf16; LOCKSTEP_CHECK of that.
  KernelInstance& type(const at::Tensor& x);
  KernelInstance& flag(bool value) { return argument(value ? "true" : "false"); }

  std::string name() const;  ///< As in C++: "column_sums<float,Half>".
  size_t hash() const;
  bool operator==(const KernelInstance&) const = default;

 private:
  std::array<const char*, 9> words_;  // the kernel, then its arguments; equal literals may have two addresses
  size_t count_ = 1;
};

/// The instance on the current device, compiled by the first call.
const void* gpu_kernel(const KernelInstance& instance);

struct GpuGrid {
  dim3 blocks, threads;
  size_t shared_bytes = 0;  ///< Per block, beside what the kernel declares itself; up to 48 KiB.
};

void launch_with(const KernelInstance& instance, const GpuGrid& grid, void** parameters);

/// Starts a kernel on the current stream. The parameters' types must be the kernel's own.
template <typename... Parameters>
void launch(const KernelInstance& instance, const GpuGrid& grid, Parameters... parameters) {
  void* addresses[] = {&parameters...};
  launch_with(instance, grid, addresses);
}

}  // namespace lockstep::nn::internal
