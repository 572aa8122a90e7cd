#pragma once
#include <ATen/ATen.h>

namespace lockstep::tests {

/// Different numbers from -scale to scale, the same on every machine and rank.
inline at::Tensor wave(at::IntArrayRef shape, double phase, double scale = 1.0, at::ScalarType type = at::kDouble) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return at::arange(count, at::kDouble).mul(0.7).add(phase).sin().mul(scale).view(shape).to(type);
}

}  // namespace lockstep::tests
