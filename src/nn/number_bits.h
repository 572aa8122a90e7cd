#pragma once
#include <cstdint>

namespace lockstep::nn {

/// Numbers of 16 bits as kernels without the tensor library see them.
struct Bfloat16Bits {
  uint16_t bits;
};
struct HalfBits {
  uint16_t bits;
};

}  // namespace lockstep::nn
