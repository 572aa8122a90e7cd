#pragma once
#include <cstdint>

namespace lockstep::nn {

/// Rows of fp32 numbers, `width` each, one after the other.
struct NormRows {
  int64_t rows = 0, width = 0;
  double epsilon = 1e-5;
};

/// out = (s - mean) rstd gain + bias with s = x, or x + residual where there is one, which goes to `sum`. Mean and
/// 1 / sqrt(variance + epsilon) of each row go to `mean` and `rstd`.
void layer_norm_rows(const NormRows& shape, const float* x, const float* residual, const float* gain, const float* bias,
                     float* sum, float* out, float* mean, float* rstd);

/// Gradients of layer_norm_rows for the rows [begin, end): dx = the gradient of s, plus dsum where it is given; those
/// of gain and bias are added to dgain and dbias [width].
void layer_norm_rows_backward(const NormRows& shape, int64_t begin, int64_t end, const float* dout, const float* dsum,
                              const float* s, const float* mean, const float* rstd, const float* gain, float* dx,
                              float* dgain, float* dbias);

}  // namespace lockstep::nn
