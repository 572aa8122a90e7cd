#pragma once
#include <cstdint>

namespace lockstep::nn {

/// Pixels of pictures with their channels side by side (channels-last): `rows` pixels of `channels` numbers each, a
/// multiple of kChannelLanes. Numbers are fp32 or, with is_bf16, bf16; sums, statistics and factors are not.
struct PixelRows {
  int64_t rows = 0, channels = 0;
  bool is_bf16 = false;
};
inline constexpr int64_t kChannelLanes = 16;

/// Adds to sums [2, channels] the sum over rows of x - centre and that of its square.
void batch_norm_sums(const PixelRows& shape, const void* x, const float* centre, double* sums);

/// What a channel is normalised by: (x - mean) scale + shift.
struct ChannelFactors {
  const float *mean, *scale, *shift;
};
/// out = (x - mean) scale + shift, plus residual where it is given; with has_relu what is negative becomes 0.
void batch_norm_rows(const PixelRows& shape, const void* x, const void* residual, const ChannelFactors& factors,
                     bool has_relu, void* out);

/// Adds to sums [2, channels] the sum over rows of g and that of g (x - mean): g is dout where out is positive and 0
/// elsewhere. g is also written to `gated`.
void batch_norm_gated_sums(const PixelRows& shape, const void* x, const void* dout, const void* out, const float* mean,
                           void* gated, double* sums);
/// The same with g = dout, or with has_relu g = dout where batch_norm_rows without a residual gave something positive.
void batch_norm_gradient_sums(const PixelRows& shape, const void* x, const void* dout, const ChannelFactors& factors,
                              bool has_relu, double* sums);

/// dx = (g - mean_g - (x - mean) slope) scale, with the g of batch_norm_gradient_sums.
void batch_norm_gradient_rows(const PixelRows& shape, const void* x, const void* dout, const ChannelFactors& factors,
                              const float* mean_g, const float* slope, bool has_relu, void* dx);

}  // namespace lockstep::nn
