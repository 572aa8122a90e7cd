#pragma once
// Vectors of fp32 numbers for kernels of the CPU, whose public functions are LOCKSTEP_VECTOR_CLONES. Vectors stay
// within one function of one instruction set, so how they would be passed does not matter.
#include <cstdint>
#include <cstring>

#include "core/vector_clones.h"
#include "nn/number_bits.h"

#pragma GCC diagnostic ignored "-Wpsabi"

namespace lockstep::nn {

inline constexpr int64_t kFloatLanes = 16;
using FloatVector = float __attribute__((vector_size(kFloatLanes * sizeof(float))));
using WordVector = uint32_t __attribute__((vector_size(kFloatLanes * sizeof(uint32_t))));
using IntVector = int32_t __attribute__((vector_size(kFloatLanes * sizeof(int32_t))));
using HalfWordVector = uint16_t __attribute__((vector_size(kFloatLanes * sizeof(uint16_t))));

template <typename To, typename From> LOCKSTEP_ALWAYS_INLINE To same_bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

template <typename T> LOCKSTEP_ALWAYS_INLINE const T* typed(const void* data) { return static_cast<const T*>(data); }
template <typename T> LOCKSTEP_ALWAYS_INLINE T* typed(void* data) { return static_cast<T*>(data); }

LOCKSTEP_ALWAYS_INLINE float as_float(float value) { return value; }
LOCKSTEP_ALWAYS_INLINE float as_float(Bfloat16Bits value) { return same_bits<float>(uint32_t{value.bits} << 16); }

LOCKSTEP_ALWAYS_INLINE FloatVector load_lanes(const float* from) {
  FloatVector value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}
LOCKSTEP_ALWAYS_INLINE FloatVector load_lanes(const Bfloat16Bits* from) {
  HalfWordVector halves;
  std::memcpy(&halves, from, sizeof(halves));
  return same_bits<FloatVector>(__builtin_convertvector(halves, WordVector) << 16);
}
LOCKSTEP_ALWAYS_INLINE void store_lanes(float* to, const FloatVector& value) { std::memcpy(to, &value, sizeof(value)); }
/// To the nearest, ties to even.
LOCKSTEP_ALWAYS_INLINE void store_lanes(Bfloat16Bits* to, const FloatVector& value) {
  const auto words = same_bits<WordVector>(value);
  const auto halves = __builtin_convertvector((words + 0x7fff + ((words >> 16) & 1)) >> 16, HalfWordVector);
  std::memcpy(to, &halves, sizeof(halves));
}

LOCKSTEP_ALWAYS_INLINE IntVector lane_numbers() {
  return IntVector{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
}

/// The first `count` numbers alone, the others `rest`.
template <typename T> LOCKSTEP_ALWAYS_INLINE FloatVector load_some(const T* from, int64_t count, float rest = 0) {
  T numbers[kFloatLanes] = {};
  std::memcpy(numbers, from, static_cast<size_t>(count) * sizeof(T));
  return lane_numbers() < static_cast<int32_t>(count) ? load_lanes(numbers) : FloatVector{} + rest;
}
template <typename T> LOCKSTEP_ALWAYS_INLINE void store_some(T* to, const FloatVector& value, int64_t count) {
  T numbers[kFloatLanes];
  store_lanes(numbers, value);
  std::memcpy(to, numbers, static_cast<size_t>(count) * sizeof(T));
}

/// Lane i holds lane i ^ bits.
LOCKSTEP_ALWAYS_INLINE FloatVector exchange_lanes(const FloatVector& value, int32_t bits) {
  return __builtin_shuffle(value, lane_numbers() ^ bits);
}

/// In pairs, so that the rounding error does not grow with the number of lanes.
LOCKSTEP_ALWAYS_INLINE float sum_lanes(FloatVector value) {
  for (int32_t half = kFloatLanes / 2; half > 0; half /= 2) value += exchange_lanes(value, half);
  return value[0];
}

/// Of numbers that are not NaN.
LOCKSTEP_ALWAYS_INLINE float largest_lane(FloatVector value) {
  for (int32_t half = kFloatLanes / 2; half > 0; half /= 2) {
    const FloatVector other = exchange_lanes(value, half);
    value = other > value ? other : value;
  }
  return value[0];
}

/// exp(x) within two units in the last place: 0 below -87.3, 2.4e38 above 88.4, NaN of NaN. x = n ln 2 + r with a whole
/// n, and a polynomial of r (Moshier's Cephes library).
LOCKSTEP_ALWAYS_INLINE FloatVector exp_of(const FloatVector& x) {
  constexpr float kLeast = -87.33f, kMost = 88.37f, kLog2OfE = 1.44269504f, kLn2High = 0.693359375f,
                  kLn2Low = -2.12194440e-4f;
  constexpr float kShift = 12582912;  // 1.5 2^23: a sum with it is rounded to a whole number, its lowest bits
  FloatVector v = x < kLeast ? FloatVector{} + kLeast : x;
  v = v > kMost ? FloatVector{} + kMost : v;
  const FloatVector shifted = v * kLog2OfE + kShift, n = shifted - kShift;
  const FloatVector r = (v - n * kLn2High) - n * kLn2Low;
  FloatVector p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const FloatVector power = p * (r * r) + r + 1.0f;
  const WordVector exponent = (same_bits<WordVector>(shifted) << 23) + 0x3f800000u;
  return x < kLeast ? FloatVector{} : power * same_bits<FloatVector>(exponent);
}

LOCKSTEP_ALWAYS_INLINE FloatVector sigmoid_of(const FloatVector& x) { return 1.0f / (1.0f + exp_of(-x)); }

}  // namespace lockstep::nn
