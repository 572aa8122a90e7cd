#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>

namespace lockstep::nn {

/// Which elements to drop: a function of the key (and of shape and device), so that a second forward pass draws the
/// same ones.
struct Dropout {
  double probability = 0.0;  ///< 0: does nothing.
  uint64_t key = 0;
  /// int64, as many as x has rows (of its last dim), where defined: each row's number in a count that does not depend
  /// on how rows are shared out. Draws are then a function of (key, number, column), the same on every device and in
  /// every layout.
  at::Tensor rows = {};
};

/// Sets the seed of the generator that kernels of `device` (not the CPU) draw from where nobody hands them one. Does
/// not wait.
void seed_device_generator(at::Device device, uint64_t key);

/// x with elements set to 0 with the given probability and the others divided by what is left of 1.
at::Tensor dropout(const at::Tensor& x, const Dropout& dropout);

}  // namespace lockstep::nn
