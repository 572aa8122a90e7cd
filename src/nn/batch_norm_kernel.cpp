// Rows are passed in the order of memory; what belongs to channels stays in the first cache.
#include "nn/batch_norm_kernel.h"

#include <algorithm>
#include <vector>

#include "nn/float_vectors.h"

#pragma GCC optimize("O3")

namespace lockstep::nn {
namespace {

constexpr int64_t kRowsInFp32 = 256;  // summed in fp32 before they are added to sums in fp64
static_assert(kChannelLanes == kFloatLanes);

LOCKSTEP_ALWAYS_INLINE FloatVector where_positive(const FloatVector& condition, const FloatVector& value) {
  return condition > 0.0f ? value : FloatVector{};
}
/// NaN stays NaN, as in ATen's relu.
LOCKSTEP_ALWAYS_INLINE FloatVector relu_of(const FloatVector& value) { return value < 0.0f ? FloatVector{} : value; }

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
      for (int64_t i = 0; i < width; i += kFloatLanes) {
        const FloatVector apart = load_lanes(from + i) - load_lanes(centre + i);
        store_lanes(partial + i, load_lanes(partial + i) + apart);
        store_lanes(partial + width + i, load_lanes(partial + width + i) + apart * apart);
      }
    }
  });
}

LOCKSTEP_ALWAYS_INLINE FloatVector normed(const FloatVector& x, const ChannelFactors& f, int64_t i) {
  return (x - load_lanes(f.mean + i)) * load_lanes(f.scale + i) + load_lanes(f.shift + i);
}

template <typename T, bool kHasResidual, bool kHasRelu>
LOCKSTEP_ALWAYS_INLINE void rows_of(const PixelRows& shape, const T* x, const T* residual, const ChannelFactors& f,
                                    T* out) {
  for (int64_t row = 0; row < shape.rows; ++row) {
    for (int64_t i = 0; i < shape.channels; i += kFloatLanes) {
      const int64_t at = row * shape.channels + i;
      FloatVector value = normed(load_lanes(x + at), f, i);
      if constexpr (kHasResidual) value += load_lanes(residual + at);
      store_lanes(out + at, kHasRelu ? relu_of(value) : value);
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
      for (int64_t i = 0; i < width; i += kFloatLanes) {
        const int64_t at = row * width + i;
        const FloatVector g = where_positive(load_lanes(out + at), load_lanes(dout + at));
        store_lanes(gated + at, g);
        store_lanes(partial + i, load_lanes(partial + i) + g);
        store_lanes(partial + width + i,
                    load_lanes(partial + width + i) + g * (load_lanes(x + at) - load_lanes(mean + i)));
      }
    }
  });
}

template <typename T, bool kHasRelu>
LOCKSTEP_ALWAYS_INLINE FloatVector gradient_at(const T* dout, const FloatVector& x, const ChannelFactors& f,
                                               int64_t i) {
  const FloatVector g = load_lanes(dout);
  return kHasRelu ? where_positive(normed(x, f, i), g) : g;
}

template <typename T, bool kHasRelu>
LOCKSTEP_ALWAYS_INLINE void gradient_sums_of(const PixelRows& shape, const T* x, const T* dout, const ChannelFactors& f,
                                             double* sums) {
  const int64_t width = shape.channels;
  sum_in_parts(shape, sums, [&](int64_t first, int64_t num_rows, float* partial) {
    for (int64_t row = first; row < first + num_rows; ++row) {
      for (int64_t i = 0; i < width; i += kFloatLanes) {
        const int64_t at = row * width + i;
        const FloatVector value = load_lanes(x + at);
        const FloatVector g = gradient_at<T, kHasRelu>(dout + at, value, f, i);
        store_lanes(partial + i, load_lanes(partial + i) + g);
        store_lanes(partial + width + i, load_lanes(partial + width + i) + g * (value - load_lanes(f.mean + i)));
      }
    }
  });
}

template <typename T, bool kHasRelu>
LOCKSTEP_ALWAYS_INLINE void gradient_rows_of(const PixelRows& shape, const T* x, const T* dout, const ChannelFactors& f,
                                             const float* mean_g, const float* slope, T* dx) {
  for (int64_t row = 0; row < shape.rows; ++row) {
    for (int64_t i = 0; i < shape.channels; i += kFloatLanes) {
      const int64_t at = row * shape.channels + i;
      const FloatVector value = load_lanes(x + at), centred = value - load_lanes(f.mean + i);
      const FloatVector g = gradient_at<T, kHasRelu>(dout + at, value, f, i);
      store_lanes(dx + at, (g - load_lanes(mean_g + i) - centred * load_lanes(slope + i)) * load_lanes(f.scale + i));
    }
  }
}

}  // namespace

LOCKSTEP_VECTOR_CLONES
void batch_norm_sums(const PixelRows& shape, const void* x, const float* centre, double* sums) {
  if (shape.is_bf16) return sums_of(shape, typed<Bfloat16Bits>(x), centre, sums);
  sums_of(shape, typed<float>(x), centre, sums);
}

LOCKSTEP_VECTOR_CLONES
void batch_norm_rows(const PixelRows& shape, const void* x, const void* residual, const ChannelFactors& factors,
                     bool has_relu, void* out) {
  if (shape.is_bf16)
    return rows_of(shape, typed<Bfloat16Bits>(x), typed<Bfloat16Bits>(residual), factors, has_relu,
                   typed<Bfloat16Bits>(out));
  rows_of(shape, typed<float>(x), typed<float>(residual), factors, has_relu, typed<float>(out));
}

LOCKSTEP_VECTOR_CLONES
void batch_norm_gated_sums(const PixelRows& shape, const void* x, const void* dout, const void* out, const float* mean,
                           void* gated, double* sums) {
  if (shape.is_bf16)
    return gated_sums_of(shape, typed<Bfloat16Bits>(x), typed<Bfloat16Bits>(dout), typed<Bfloat16Bits>(out), mean,
                         typed<Bfloat16Bits>(gated), sums);
  gated_sums_of(shape, typed<float>(x), typed<float>(dout), typed<float>(out), mean, typed<float>(gated), sums);
}

LOCKSTEP_VECTOR_CLONES
void batch_norm_gradient_sums(const PixelRows& shape, const void* x, const void* dout, const ChannelFactors& factors,
                              bool has_relu, double* sums) {
  if (shape.is_bf16 && has_relu)
    return gradient_sums_of<Bfloat16Bits, true>(shape, typed<Bfloat16Bits>(x), typed<Bfloat16Bits>(dout), factors,
                                                sums);
  if (shape.is_bf16)
    return gradient_sums_of<Bfloat16Bits, false>(shape, typed<Bfloat16Bits>(x), typed<Bfloat16Bits>(dout), factors,
                                                 sums);
  if (has_relu) return gradient_sums_of<float, true>(shape, typed<float>(x), typed<float>(dout), factors, sums);
  gradient_sums_of<float, false>(shape, typed<float>(x), typed<float>(dout), factors, sums);
}

LOCKSTEP_VECTOR_CLONES
void batch_norm_gradient_rows(const PixelRows& shape, const void* x, const void* dout, const ChannelFactors& factors,
                              const float* mean_g, const float* slope, bool has_relu, void* dx) {
  const auto *x16 = typed<Bfloat16Bits>(x), *dout16 = typed<Bfloat16Bits>(dout);
  const auto *x32 = typed<float>(x), *dout32 = typed<float>(dout);
  if (shape.is_bf16 && has_relu)
    return gradient_rows_of<Bfloat16Bits, true>(shape, x16, dout16, factors, mean_g, slope, typed<Bfloat16Bits>(dx));
  if (shape.is_bf16)
    return gradient_rows_of<Bfloat16Bits, false>(shape, x16, dout16, factors, mean_g, slope, typed<Bfloat16Bits>(dx));
  if (has_relu) return gradient_rows_of<float, true>(shape, x32, dout32, factors, mean_g, slope, typed<float>(dx));
  gradient_rows_of<float, false>(shape, x32, dout32, factors, mean_g, slope, typed<float>(dx));
}

}  // namespace lockstep::nn
