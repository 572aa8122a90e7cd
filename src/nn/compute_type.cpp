#include "nn/compute_type.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>

namespace lockstep::nn {

at::Tensor in_compute_type(const at::Tensor& x) {
  const c10::DeviceType device = x.device().type();
  if (!at::autocast::is_autocast_enabled(device)) return x;
  return at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), x, device);
}

at::ScalarType compute_type_of(const at::Tensor& x) {
  const c10::DeviceType device = x.device().type();
  const bool is_cast =
      at::autocast::is_autocast_enabled(device) && x.is_floating_point() && x.scalar_type() != at::kDouble;
  return is_cast ? at::autocast::get_autocast_dtype(device) : x.scalar_type();
}

}  // namespace lockstep::nn
