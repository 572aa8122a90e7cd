// Rows are passed in the order of memory; what belongs to channels stays in the first cache.
#include "nn/batch_norm_kernel.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/vector_clones.h"

#pragma GCC optimize("O3")
// Vectors stay within one function of one instruction set, so how they would be passed does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace lockstep::nn {
namespace {

constexpr int64_t kRowsInFp32 = 256;  // summed in fp32 before they are added to sums in fp64
using ChannelVector = float __attribute__((vector_size(kChannelLanes * sizeof(float))));
using ChannelWords = uint32_t __attribute__((vector_size(kChannelLanes * sizeof(uint32_t))));
using ChannelHalves = uint16_t __attribute__((vector_size(kChannelLanes * sizeof(uint16_t))));

struct Bf16 {
  uint16_t bits;
};

LOCKSTEP_ALWAYS_INLINE ChannelVector channels_at(const float* from) {
  ChannelVector value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}
LOCKSTEP_ALWAYS_INLINE ChannelVector channels_at(const Bf16* from) {
  ChannelHalves halves;
  std::memcpy(&halves, from, sizeof(halves));
  const ChannelWords words = __builtin_convertvector(halves, ChannelWords) << 16;
  ChannelVector value;
  std::memcpy(&value, &words, sizeof(value));
  return value;
}
LOCKSTEP_ALWAYS_INLINE void put_channels(float* to, const ChannelVector& value) {
  std::memcpy(to, &value, sizeof(value));
}
/// To the nearest, ties to even.
LOCKSTEP_ALWAYS_INLINE void put_channels(Bf16* to, const ChannelVector& value) {
  ChannelWords words;
  std::memcpy(&words, &value, sizeof(words));
  words = (words + 0x7fff + ((words >> 16) & 1)) >> 16;
  const ChannelHalves halves = __builtin_convertvector(words, ChannelHalves);
  std::memcpy(to, &halves, sizeof(halves));
}

LOCKSTEP_ALWAYS_INLINE ChannelVector where_positive(const ChannelVector& condition, const ChannelVector& value) {
  return condition > 0.0f ? value : ChannelVector{};
}
/// NaN stays NaN, as in ATen's relu.
LOCKSTEP_ALWAYS_INLINE ChannelVector relu_of(const ChannelVector& value) {
  return value < 0.0f ? ChannelVector{} : value;
}

/// Calls add(first_row, num_rows, partial) with fp32 sums [2, channels] of a few rows at a time.
template <typename Add> LOCKSTEP_ALWAYS_INLINE void sum_in_parts(const PixelRows& shape, double* sums, const Add& add) {
  const auto count = static_cast<size_t>(2 * shape.channels);
  std::vector<float> partial(count);
  for (int64_t first = 0; first < shape.rows; first += kRowsInFp32) {
    std::fill(partial.begin(), partial.end(), 0.0f);
    add(first, std::min(kRowsInFp32, shape.rows - first), partial.data());
    for (size_t i = 0; i < count; ++i) sums[i] += static_cast<double>(partial[i]);
  }
}

template <typename T>
LOCKSTEP_ALWAYS_INLINE void sums_of(const PixelRows& shape, const T* x, const float* centre, double* sums) {
  const int64_t width = shape.channels;
  sum_in_parts(shape, sums, [&](int64_t first, int64_t num_rows, float* partial) {
    for (int64_t row = first; row < first + num_rows; ++row) {
      const T* from = x + row * width;
      for (int64_t i = 0; i < width; i += kChannelLanes) {
        const ChannelVector apart = channels_at(from + i) - channels_at(centre + i);
        put_channels(partial + i, channels_at(partial + i) + apart);
        put_channels(partial + width + i, channels_at(partial + width + i) + apart * apart);
      }
    }
  });
}

LOCKSTEP_ALWAYS_INLINE ChannelVector normed(const ChannelVector& x, const ChannelFactors& f, int64_t i) {
  return (x - channels_at(f.mean + i)) * channels_at(f.scale + i) + channels_at(f.shift + i);
}

template <typename T, bool kHasResidual, bool kHasRelu>
LOCKSTEP_ALWAYS_INLINE void rows_of(const PixelRows& shape, const T* x, const T* residual, const ChannelFactors& f,
                                    T* out) {
  for (int64_t row = 0; row < shape.rows; ++row) {
    for (int64_t i = 0; i < shape.channels; i += kChannelLanes) {
      const int64_t at = row * shape.channels + i;
      ChannelVector value = normed(channels_at(x + at), f, i);
      if constexpr (kHasResidual) value += channels_at(residual + at);
      put_channels(out + at, kHasRelu ? relu_of(value) : value);
    }
  }
}

template <typename T>
LOCKSTEP_ALWAYS_INLINE void rows_of(const PixelRows& shape, const T* x, const T* residual, const ChannelFactors& f,
                                    bool has_relu, T* out) {
  if (residual != nullptr && has_relu) return rows_of<T, true, true>(shape, x, residual, f, out);
  if (residual != nullptr) return rows_of<T, true, false>(shape, x, residual, f, out);
  if (has_relu) return rows_of<T, false, true>(shape, x, residual, f, out);
  rows_of<T, false, false>(shape, x, residual, f, out);
}

template <typename T>
LOCKSTEP_ALWAYS_INLINE void gated_sums_of(const PixelRows& shape, const T* x, const T* dout, const T* out,
                                          const float* mean, T* gated, double* sums) {
  const int64_t width = shape.channels;
  sum_in_parts(shape, sums, [&](int64_t first, int64_t num_rows, float* partial) {
    for (int64_t row = first; row < first + num_rows; ++row) {
      for (int64_t i = 0; i < width; i += kChannelLanes) {
        const int64_t at = row * width + i;
        const ChannelVector g = where_positive(channels_at(out + at), channels_at(dout + at));
        put_channels(gated + at, g);
        put_channels(partial + i, channels_at(partial + i) + g);
        put_channels(partial + width + i,
                     channels_at(partial + width + i) + g * (channels_at(x + at) - channels_at(mean + i)));
      }
    }
  });
}

template <typename T, bool kHasRelu>
LOCKSTEP_ALWAYS_INLINE ChannelVector gradient_at(const T* dout, const ChannelVector& x, const ChannelFactors& f,
                                                 int64_t i) {
  const ChannelVector g = channels_at(dout);
  return kHasRelu ? where_positive(normed(x, f, i), g) : g;
}

template <typename T, bool kHasRelu>
LOCKSTEP_ALWAYS_INLINE void gradient_sums_of(const PixelRows& shape, const T* x, const T* dout, const ChannelFactors& f,
                                             double* sums) {
  const int64_t width = shape.channels;
  sum_in_parts(shape, sums, [&](int64_t first, int64_t num_rows, float* partial) {
    for (int64_t row = first; row < first + num_rows; ++row) {
      for (int64_t i = 0; i < width; i += kChannelLanes) {
        const int64_t at = row * width + i;
        const ChannelVector value = channels_at(x + at);
        const ChannelVector g = gradient_at<T, kHasRelu>(dout + at, value, f, i);
        put_channels(partial + i, channels_at(partial + i) + g);
        put_channels(partial + width + i, channels_at(partial + width + i) + g * (value - channels_at(f.mean + i)));
      }
    }
  });
}

template <typename T, bool kHasRelu>
LOCKSTEP_ALWAYS_INLINE void gradient_rows_of(const PixelRows& shape, const T* x, const T* dout, const ChannelFactors& f,
                                             const float* mean_g, const float* slope, T* dx) {
  for (int64_t row = 0; row < shape.rows; ++row) {
    for (int64_t i = 0; i < shape.channels; i += kChannelLanes) {
      const int64_t at = row * shape.channels + i;
      const ChannelVector value = channels_at(x + at), centred = value - channels_at(f.mean + i);
      const ChannelVector g = gradient_at<T, kHasRelu>(dout + at, value, f, i);
      put_channels(dx + at,
                   (g - channels_at(mean_g + i) - centred * channels_at(slope + i)) * channels_at(f.scale + i));
    }
  }
}

template <typename T> const T* typed(const void* data) { return static_cast<const T*>(data); }
template <typename T> T* typed(void* data) { return static_cast<T*>(data); }

}  // namespace

LOCKSTEP_VECTOR_CLONES
void batch_norm_sums(const PixelRows& shape, const void* x, const float* centre, double* sums) {
  if (shape.is_bf16) return sums_of(shape, typed<Bf16>(x), centre, sums);
  sums_of(shape, typed<float>(x), centre, sums);
}

LOCKSTEP_VECTOR_CLONES
void batch_norm_rows(const PixelRows& shape, const void* x, const void* residual, const ChannelFactors& factors,
                     bool has_relu, void* out) {
  if (shape.is_bf16) return rows_of(shape, typed<Bf16>(x), typed<Bf16>(residual), factors, has_relu, typed<Bf16>(out));
  rows_of(shape, typed<float>(x), typed<float>(residual), factors, has_relu, typed<float>(out));
}

LOCKSTEP_VECTOR_CLONES
void batch_norm_gated_sums(const PixelRows& shape, const void* x, const void* dout, const void* out, const float* mean,
                           void* gated, double* sums) {
  if (shape.is_bf16)
    return gated_sums_of(shape, typed<Bf16>(x), typed<Bf16>(dout), typed<Bf16>(out), mean, typed<Bf16>(gated), sums);
  gated_sums_of(shape, typed<float>(x), typed<float>(dout), typed<float>(out), mean, typed<float>(gated), sums);
}

LOCKSTEP_VECTOR_CLONES
void batch_norm_gradient_sums(const PixelRows& shape, const void* x, const void* dout, const ChannelFactors& factors,
                              bool has_relu, double* sums) {
  if (shape.is_bf16 && has_relu)
    return gradient_sums_of<Bf16, true>(shape, typed<Bf16>(x), typed<Bf16>(dout), factors, sums);
  if (shape.is_bf16) return gradient_sums_of<Bf16, false>(shape, typed<Bf16>(x), typed<Bf16>(dout), factors, sums);
  if (has_relu) return gradient_sums_of<float, true>(shape, typed<float>(x), typed<float>(dout), factors, sums);
  gradient_sums_of<float, false>(shape, typed<float>(x), typed<float>(dout), factors, sums);
}

LOCKSTEP_VECTOR_CLONES
void batch_norm_gradient_rows(const PixelRows& shape, const void* x, const void* dout, const ChannelFactors& factors,
                              const float* mean_g, const float* slope, bool has_relu, void* dx) {
  const auto *x16 = typed<Bf16>(x), *dout16 = typed<Bf16>(dout);
  const auto *x32 = typed<float>(x), *dout32 = typed<float>(dout);
  if (shape.is_bf16 && has_relu)
    return gradient_rows_of<Bf16, true>(shape, x16, dout16, factors, mean_g, slope, typed<Bf16>(dx));
  if (shape.is_bf16) return gradient_rows_of<Bf16, false>(shape, x16, dout16, factors, mean_g, slope, typed<Bf16>(dx));
  if (has_relu) return gradient_rows_of<float, true>(shape, x32, dout32, factors, mean_g, slope, typed<float>(dx));
  gradient_rows_of<float, false>(shape, x32, dout32, factors, mean_g, slope, typed<float>(dx));
}

}  // namespace lockstep::nn
