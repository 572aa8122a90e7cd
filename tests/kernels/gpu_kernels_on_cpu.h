// The kernels of src/nn/gpu_kernels.cu as functions of the host, with what they expect of their includer.
#pragma once
#include "support/cuda_on_cpu.h"
#include "support/narrow_numbers.h"

namespace lockstep::tests::cuda::kernels {

inline constexpr size_t kMostShared = 12288;  // 48 KiB, what a launch may ask for without more ado
inline thread_local float of_rows[kMostShared];

struct Half;
struct BFloat16;
float widened(Half value);
Half to_half(float value);
BFloat16 to_bfloat16(float value);
inline unsigned short to_e4m3(float first, float second) {
  return static_cast<unsigned short>(narrow_bits(first, kE4M3Type) | narrow_bits(second, kE4M3Type) << 8);
}
inline unsigned short to_e5m2(float first, float second) {
  return static_cast<unsigned short>(narrow_bits(first, kE5M2Type) | narrow_bits(second, kE5M2Type) << 8);
}

// GCC refuses `thread_local alignas(16) T x`, as the standard does; CUDA's compilers allow the like.
#define alignas(bytes) __attribute__((aligned(bytes)))
#include "nn/gpu_kernels.cu"
#undef alignas

inline float widened(Half value) { return static_cast<float>(widened_bits(value.bits, kHalfType)); }
inline Half to_half(float value) { return {static_cast<unsigned short>(narrow_bits(value, kHalfType))}; }
inline BFloat16 to_bfloat16(float value) { return {static_cast<unsigned short>(narrow_bits(value, kBFloat16Type))}; }

}  // namespace lockstep::tests::cuda::kernels
