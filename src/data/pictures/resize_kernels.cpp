// Both passes, compiled by Google Highway once per instruction set (SSE4 to AVX-512 on x86-64, NEON on aarch64) and
// chosen at run time.
#include "data/pictures/resize_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/pictures/resize_kernels.cpp"  // how Highway compiles this file again for each target
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::data::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kFractionBits = 22;
constexpr size_t kTileRows = 16;               // rows that the horizontal pass takes at once
constexpr size_t kPixelBytes = 3 * kTileRows;  // one transposed pixel: red of 16 rows, green, blue

template <class D32> HWY_INLINE auto load_wide(D32 d32, const uint8_t* from) {
  const hn::Rebind<uint8_t, D32> d8;
  return hn::PromoteTo(d32, hn::LoadU(d8, from));
}

template <class D32, class V> HWY_INLINE void store_bytes(D32, V sum, uint8_t* to) {
  const hn::Rebind<uint8_t, D32> d8;
  hn::StoreU(hn::DemoteTo(d8, hn::ShiftRight<kFractionBits>(sum)), d8, to);  // saturates to 0..255
}

/// One output row: sums of `count` rows weighted by `taps`, over row_bytes bytes. Reads and writes nothing beyond them.
HWY_INLINE void weigh_rows(const uint8_t* HWY_RESTRICT rows, size_t stride, size_t row_bytes,
                           const int32_t* HWY_RESTRICT taps, size_t count, uint8_t* HWY_RESTRICT out) {
  const hn::CappedTag<int32_t, 16> d32;
  const size_t lanes = hn::Lanes(d32);
  const auto half = hn::Set(d32, 1 << (kFractionBits - 1));
  size_t x = 0;
  for (; x + 3 * lanes <= row_bytes; x += 3 * lanes) {
    auto sum0 = half, sum1 = half, sum2 = half;
    const uint8_t* from = rows + x;
    for (size_t t = 0; t < count; ++t, from += stride) {
      const auto tap = hn::Set(d32, taps[t]);
      sum0 = hn::Add(sum0, hn::Mul(load_wide(d32, from), tap));
      sum1 = hn::Add(sum1, hn::Mul(load_wide(d32, from + lanes), tap));
      sum2 = hn::Add(sum2, hn::Mul(load_wide(d32, from + 2 * lanes), tap));
    }
    store_bytes(d32, sum0, out + x);
    store_bytes(d32, sum1, out + x + lanes);
    store_bytes(d32, sum2, out + x + 2 * lanes);
  }
  for (; x + lanes <= row_bytes; x += lanes) {
    auto sum = half;
    for (size_t t = 0; t < count; ++t)
      sum = hn::Add(sum, hn::Mul(load_wide(d32, rows + t * stride + x), hn::Set(d32, taps[t])));
    store_bytes(d32, sum, out + x);
  }
  for (; x < row_bytes; ++x) {
    int32_t sum = 1 << (kFractionBits - 1);
    for (size_t t = 0; t < count; ++t) sum += rows[t * stride + x] * taps[t];
    out[x] = static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
  }
}

void vertical_pass(const uint8_t* in, size_t in_stride_bytes, int first_row, size_t row_bytes,
                   const AxisWeights& weights, uint8_t* out, size_t out_stride_bytes) {
  for (size_t y = 0; y < weights.begin.size(); ++y) {
    weigh_rows(in + static_cast<size_t>(weights.begin[y] - first_row) * in_stride_bytes, in_stride_bytes, row_bytes,
               weights.weights.data() + y * static_cast<size_t>(weights.num_taps),
               static_cast<size_t>(weights.count[y]), out + y * out_stride_bytes);
  }
}

/// to[c][r] = from[r][c] for a 16 x 16 block of bytes: four rounds of interleaving the upper with the lower half of the
/// rows.
HWY_INLINE void transpose_block(const uint8_t* from, size_t from_stride, uint8_t* to, size_t to_stride) {
#if HWY_TARGET == HWY_SCALAR || HWY_HAVE_SCALABLE  // no vectors of 16 bytes, or none that can lie in an array
  for (size_t r = 0; r < 16; ++r) {
    for (size_t c = 0; c < 16; ++c) to[c * to_stride + r] = from[r * from_stride + c];
  }
#else
  const hn::Full128<uint8_t> d8;
  using V = hn::Vec<decltype(d8)>;
  V a[16], b[16];
  for (size_t i = 0; i < 16; ++i) a[i] = hn::LoadU(d8, from + i * from_stride);
  const auto interleave = [&](const V* source, V* result) HWY_ATTR {
    for (size_t i = 0; i < 8; ++i) {
      result[2 * i] = hn::InterleaveLower(d8, source[i], source[i + 8]);
      result[2 * i + 1] = hn::InterleaveUpper(d8, source[i], source[i + 8]);
    }
  };
  interleave(a, b);
  interleave(b, a);
  interleave(a, b);
  interleave(b, a);
  for (size_t i = 0; i < 16; ++i) hn::StoreU(a[i], d8, to + i * to_stride);
#endif
}

/// Rows of row_bytes bytes <-> the transposed tile [row_bytes][16], through a bounce block where fewer than 16 rows or
/// bytes are left.
void rows_to_tile(const uint8_t* rows, size_t stride, size_t num_rows, size_t row_bytes, uint8_t* tile) {
  alignas(16) std::array<uint8_t, 256> bounce{};
  for (size_t x = 0; x < row_bytes; x += 16) {
    const size_t width = std::min<size_t>(16, row_bytes - x);
    if (width == 16 && num_rows == kTileRows) {
      transpose_block(rows + x, stride, tile + x * kTileRows, kTileRows);
      continue;
    }
    for (size_t r = 0; r < num_rows; ++r) std::memcpy(bounce.data() + r * 16, rows + r * stride + x, width);
    transpose_block(bounce.data(), 16, tile + x * kTileRows, kTileRows);
  }
}

void tile_to_rows(const uint8_t* tile, size_t row_bytes, uint8_t* rows, size_t stride, size_t num_rows) {
  alignas(16) std::array<uint8_t, 256> bounce;
  for (size_t x = 0; x < row_bytes; x += 16) {
    const size_t width = std::min<size_t>(16, row_bytes - x);
    if (width == 16 && num_rows == kTileRows) {
      transpose_block(tile + x * kTileRows, kTileRows, rows + x, stride);
      continue;
    }
    transpose_block(tile + x * kTileRows, kTileRows, bounce.data(), 16);
    for (size_t r = 0; r < num_rows; ++r) std::memcpy(rows + r * stride + x, bounce.data() + r * 16, width);
  }
}

/// Sixteen rows at a time are transposed, so that the sum over neighbours in a row becomes a sum over rows of the tile.
void horizontal_pass(const uint8_t* in, size_t in_stride_bytes, int num_rows, int first_column, int num_columns,
                     const AxisWeights& weights, uint8_t* out, size_t out_stride_bytes, std::vector<uint8_t>& tile) {
  const auto padded = [](size_t bytes) { return (bytes + 15) / 16 * 16 * kTileRows; };
  const size_t in_row_bytes = static_cast<size_t>(num_columns) * 3, out_row_bytes = weights.begin.size() * 3;
  tile.resize(std::max(tile.size(), padded(in_row_bytes) + padded(out_row_bytes)));
  uint8_t* in_tile = tile.data();
  uint8_t* out_tile = tile.data() + padded(in_row_bytes);
  for (size_t y = 0; y < static_cast<size_t>(num_rows); y += kTileRows) {
    const size_t here = std::min(kTileRows, static_cast<size_t>(num_rows) - y);
    rows_to_tile(in + y * in_stride_bytes, in_stride_bytes, here, in_row_bytes, in_tile);
    vertical_pass(in_tile, kPixelBytes, first_column, kPixelBytes, weights, out_tile, kPixelBytes);
    tile_to_rows(out_tile, out_row_bytes, out + y * out_stride_bytes, out_stride_bytes, here);
  }
}

}  // namespace
}  // namespace lockstep::data::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::data {
namespace {
HWY_EXPORT(vertical_pass);
HWY_EXPORT(horizontal_pass);
}  // namespace

void resize_rows(const uint8_t* in, size_t in_stride_bytes, int first_row, size_t row_bytes, const AxisWeights& weights,
                 uint8_t* out, size_t out_stride_bytes) {
  HWY_DYNAMIC_DISPATCH(vertical_pass)(in, in_stride_bytes, first_row, row_bytes, weights, out, out_stride_bytes);
}

void resize_columns(const uint8_t* in, size_t in_stride_bytes, int num_rows, int first_column, int num_columns,
                    const AxisWeights& weights, uint8_t* out, size_t out_stride_bytes, std::vector<uint8_t>& tile) {
  HWY_DYNAMIC_DISPATCH(horizontal_pass)
  (in, in_stride_bytes, num_rows, first_column, num_columns, weights, out, out_stride_bytes, tile);
}

}  // namespace lockstep::data
#endif
