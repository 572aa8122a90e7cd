#include <ATen/cuda/CUDAContextLight.h>

#include "nn/fp8.h"

namespace lockstep::nn {

Fp8Engine fp8_engine_of(const at::Device& device) {
  if (!device.is_cuda()) return Fp8Engine::kEmulated;
  const cudaDeviceProp* properties =
      at::cuda::getDeviceProperties(device.has_index() ? device.index() : at::cuda::current_device());
  return properties->major * 10 + properties->minor >= 89 ? Fp8Engine::kScaledMm : Fp8Engine::kEmulated;
}

}  // namespace lockstep::nn
