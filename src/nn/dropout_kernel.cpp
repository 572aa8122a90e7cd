// One pass: no draw and no mask goes through memory; 64-bit products of whole vectors where the processor has them.
#include "nn/dropout_kernel.h"

#include "nn/float_vectors.h"

#pragma GCC optimize("O3")

namespace lockstep::nn {

LOCKSTEP_ALWAYS_INLINE float as_float(HalfBits value) { return static_cast<float>(same_bits<_Float16>(value.bits)); }

namespace {

constexpr uint64_t kColumnStep = 0x9e3779b97f4a7c15u;
constexpr int32_t kDrawMask = (1 << 24) - 1;

/// The last steps of SplitMix64 (Steele et al. 2014).
LOCKSTEP_ALWAYS_INLINE uint64_t mixed_bits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// To nearest, ties to even.
LOCKSTEP_ALWAYS_INLINE void put(float value, float& to) { to = value; }
LOCKSTEP_ALWAYS_INLINE void put(float value, Bfloat16Bits& to) {
  // NaNs stay NaNs: those of products of a bfloat16 have 16 zeros below, to which nothing is carried from.
  const auto bits = same_bits<uint32_t>(value);
  to.bits = static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
LOCKSTEP_ALWAYS_INLINE void put(float value, HalfBits& to) {
  to.bits = same_bits<uint16_t>(static_cast<_Float16>(value));
}

template <typename T>
LOCKSTEP_ALWAYS_INLINE void drop(const NumberedDraws& draws, int64_t begin, int64_t end, float factor, const T* x,
                                 T* y) {
  const auto kept = static_cast<int32_t>(draws.kept_of_2_24);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t number = draws.rows != nullptr ? draws.rows[row] : row;
    const uint64_t row_key = mixed_bits(static_cast<uint64_t>(number) + draws.key);
    const T* from = x + row * draws.columns;
    T* to = y + row * draws.columns;
    for (int64_t column = 0; column < draws.columns; ++column) {
      const uint64_t drawn = mixed_bits(row_key + static_cast<uint64_t>(column) * kColumnStep);
      const float scale = (static_cast<int32_t>(drawn) & kDrawMask) < kept ? factor : 0.0f;
      put(as_float(from[column]) * scale, to[column]);
    }
  }
}

}  // namespace

LOCKSTEP_VECTOR_CLONES
void drop_rows(const NumberedDraws& draws, int64_t begin, int64_t end, float factor, const float* x, float* y) {
  drop(draws, begin, end, factor, x, y);
}

LOCKSTEP_VECTOR_CLONES
void drop_rows(const NumberedDraws& draws, int64_t begin, int64_t end, float factor, const Bfloat16Bits* x,
               Bfloat16Bits* y) {
  drop(draws, begin, end, factor, x, y);
}

LOCKSTEP_VECTOR_CLONES
void drop_rows(const NumberedDraws& draws, int64_t begin, int64_t end, float factor, const HalfBits* x, HalfBits* y) {
  drop(draws, begin, end, factor, x, y);
}

}  // namespace lockstep::nn
