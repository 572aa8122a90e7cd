#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace lockstep::tests {

/// A type of numbers of up to 16 bits: sign, exponent, mantissa.
struct NarrowType {
  int exponent_bits, mantissa_bits;
  uint32_t most;    // bits of the largest finite number
  uint32_t beyond;  // bits of what is larger: `most`, or infinity
  uint32_t nan;
};
inline constexpr NarrowType kHalfType{5, 10, 0x7bff, 0x7c00, 0x7fff}, kBFloat16Type{8, 7, 0x7f7f, 0x7f80, 0x7fff};
/// As GPUs convert with satfinite.
inline constexpr NarrowType kE4M3Type{4, 3, 0x7e, 0x7e, 0x7f}, kE5M2Type{5, 2, 0x7b, 0x7b, 0x7f};

/// The bits of `value` in a narrow type: rounded to nearest, ties to even.
inline uint32_t narrow_bits(double value, const NarrowType& type) {
  if (std::isnan(value)) return type.nan;
  const uint32_t sign = std::signbit(value) ? 1u << (type.exponent_bits + type.mantissa_bits) : 0;
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | type.beyond;
  const int bias = (1 << (type.exponent_bits - 1)) - 1;
  const int exponent = std::max(magnitude == 0 ? -bias : std::ilogb(magnitude), 1 - bias);
  const double steps = std::nearbyint(std::ldexp(magnitude, type.mantissa_bits - exponent));
  if (exponent > bias + 1) return sign | type.beyond;
  const uint32_t bits =
      (static_cast<uint32_t>(exponent + bias - 1) << type.mantissa_bits) + static_cast<uint32_t>(steps);
  return sign | (bits > type.most ? type.beyond : bits);
}

/// The number that bits of a narrow type stand for; E5M2 and the types of 16 bits have infinity.
inline double widened_bits(uint32_t bits, const NarrowType& type) {
  const int bias = (1 << (type.exponent_bits - 1)) - 1;
  const uint32_t magnitude = bits & ((1u << (type.exponent_bits + type.mantissa_bits)) - 1);
  const bool is_negative = magnitude != bits;
  const uint32_t mantissa = magnitude & ((1u << type.mantissa_bits) - 1);
  const int exponent = static_cast<int>(magnitude >> type.mantissa_bits);
  double value = 0;
  if (magnitude > type.most) {
    value = magnitude == type.most + 1 && type.nan != magnitude ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - type.mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1 << type.mantissa_bits), exponent - bias - type.mantissa_bits);
  }
  return is_negative ? -value : value;
}

}  // namespace lockstep::tests
