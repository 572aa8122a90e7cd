// One pass without memory between the draw and the mask; 64-bit products of whole vectors where the processor has them.
#include "nn/dropout_kernel.h"

#include "core/vector_clones.h"

#pragma GCC optimize("O3")

namespace lockstep::nn {
namespace {

constexpr uint64_t kColumnStep = 0x9e3779b97f4a7c15u;
constexpr uint64_t kDrawMask = (uint64_t{1} << 24) - 1;

/// The last steps of SplitMix64 (Steele et al. 2014).
LOCKSTEP_ALWAYS_INLINE uint64_t mixed_bits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

template <typename Bits>
LOCKSTEP_ALWAYS_INLINE void draw_rows(const NumberedDraws& draws, int64_t begin, int64_t end, Bits one, Bits* out) {
  const auto kept = static_cast<uint64_t>(draws.kept_of_2_24);
  for (int64_t row = begin; row < end; ++row) {
    const uint64_t row_key = mixed_bits(static_cast<uint64_t>(draws.rows[row]) + draws.key);
    Bits* to = out + row * draws.columns;
    for (int64_t column = 0; column < draws.columns; ++column) {
      const uint64_t drawn = mixed_bits(row_key + static_cast<uint64_t>(column) * kColumnStep) & kDrawMask;
      to[column] = drawn < kept ? one : Bits{0};
    }
  }
}

}  // namespace

LOCKSTEP_VECTOR_CLONES
void draw_kept(const NumberedDraws& draws, int64_t begin, int64_t end, uint32_t one, uint32_t* out) {
  draw_rows(draws, begin, end, one, out);
}

LOCKSTEP_VECTOR_CLONES
void draw_kept(const NumberedDraws& draws, int64_t begin, int64_t end, uint16_t one, uint16_t* out) {
  draw_rows(draws, begin, end, one, out);
}

}  // namespace lockstep::nn
