#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>

namespace lockstep::nn {

/// Which elements to drop. Draws are a function of (key, number of the row, column), rows and columns being those of
/// the last dim: the same on every device and in every layout that numbers its rows alike, and again in a second pass.
struct Dropout {
  double probability = 0.0;  ///< 0: does nothing.
  uint64_t key = 0;
  /// int64, as many as x has rows, where defined: each row's number in a count that does not depend on how rows are
  /// shared out. Where undefined, row i has number i.
  at::Tensor rows = {};
};

/// Sets the seed of the generator that kernels of `device` (not the CPU) draw from where nobody hands them one. Does
/// not wait.
void seed_device_generator(at::Device device, uint64_t key);

/// x times 0 with the given probability and over what is left of 1 else. Keeps nothing of x's size for the backward
/// pass, which draws again.
at::Tensor dropout(const at::Tensor& x, const Dropout& dropout);

}  // namespace lockstep::nn
