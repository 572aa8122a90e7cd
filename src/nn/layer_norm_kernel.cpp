// A row is read once from memory and stays in the first cache for the passes that follow.
#include "nn/layer_norm_kernel.h"

#include <cmath>

#include "nn/float_vectors.h"

#pragma GCC optimize("O3")

namespace lockstep::nn {
LOCKSTEP_VECTOR_CLONES
void layer_norm_rows(const NormRows& shape, const float* x, const float* residual, const float* gain, const float* bias,
                     float* sum, float* out, float* mean, float* rstd) {
  const int64_t width = shape.width, whole = width / kFloatLanes * kFloatLanes;
  const auto count = static_cast<float>(width);
  for (int64_t row = 0; row < shape.rows; ++row) {
    const float* from = x + row * width;
    float* to = out + row * width;
    FloatVector total = {};
    float rest = 0;
    if (residual != nullptr) {
      const float* other = residual + row * width;
      float* both = sum + row * width;
      for (int64_t i = 0; i < whole; i += kFloatLanes) {
        const FloatVector value = load_lanes(from + i) + load_lanes(other + i);
        store_lanes(both + i, value);
        total += value;
      }
      for (int64_t i = whole; i < width; ++i) rest += both[i] = from[i] + other[i];
      from = both;
    } else {
      for (int64_t i = 0; i < whole; i += kFloatLanes) total += load_lanes(from + i);
      for (int64_t i = whole; i < width; ++i) rest += from[i];
    }
    const float centre = (sum_lanes(total) + rest) / count;
    FloatVector squares = {};
    float rest_squares = 0;
    for (int64_t i = 0; i < whole; i += kFloatLanes) {
      const FloatVector apart = load_lanes(from + i) - centre;
      squares += apart * apart;
    }
    for (int64_t i = whole; i < width; ++i) rest_squares += (from[i] - centre) * (from[i] - centre);
    const float variance = (sum_lanes(squares) + rest_squares) / count;
    const float scale = 1.0f / std::sqrt(variance + static_cast<float>(shape.epsilon));
    for (int64_t i = 0; i < whole; i += kFloatLanes)
      store_lanes(to + i, (load_lanes(from + i) - centre) * scale * load_lanes(gain + i) + load_lanes(bias + i));
    for (int64_t i = whole; i < width; ++i) to[i] = (from[i] - centre) * scale * gain[i] + bias[i];
    mean[row] = centre;
    rstd[row] = scale;
  }
}

LOCKSTEP_VECTOR_CLONES
void layer_norm_rows_backward(const NormRows& shape, int64_t begin, int64_t end, const float* dout, const float* dsum,
                              const float* s, const float* mean, const float* rstd, const float* gain, float* dx,
                              float* dgain, float* dbias) {
  const int64_t width = shape.width, whole = width / kFloatLanes * kFloatLanes;
  for (int64_t row = begin; row < end; ++row) {
    const float *in = s + row * width, *d = dout + row * width;
    float* to = dx + row * width;
    const float centre = mean[row], scale = rstd[row];
    FloatVector total = {}, product = {};
    float rest = 0, rest_product = 0;
    for (int64_t i = 0; i < whole; i += kFloatLanes) {
      const FloatVector normed = (load_lanes(in + i) - centre) * scale, dy = load_lanes(d + i);
      const FloatVector weighted = dy * load_lanes(gain + i);
      total += weighted;
      product += weighted * normed;
      store_lanes(dgain + i, load_lanes(dgain + i) + dy * normed);
      store_lanes(dbias + i, load_lanes(dbias + i) + dy);
    }
    for (int64_t i = whole; i < width; ++i) {
      const float normed = (in[i] - centre) * scale;
      rest += d[i] * gain[i];
      rest_product += d[i] * gain[i] * normed;
      dgain[i] += d[i] * normed;
      dbias[i] += d[i];
    }
    const auto count = static_cast<float>(width);
    const float mean_d = (sum_lanes(total) + rest) / count, mean_product = (sum_lanes(product) + rest_product) / count;
    const float* more = dsum == nullptr ? nullptr : dsum + row * width;
    for (int64_t i = 0; i < whole; i += kFloatLanes) {
      const FloatVector normed = (load_lanes(in + i) - centre) * scale;
      FloatVector value = (load_lanes(d + i) * load_lanes(gain + i) - mean_d - normed * mean_product) * scale;
      if (more != nullptr) value += load_lanes(more + i);
      store_lanes(to + i, value);
    }
    for (int64_t i = whole; i < width; ++i) {
      const float normed = (in[i] - centre) * scale;
      to[i] = (d[i] * gain[i] - mean_d - normed * mean_product) * scale + (more == nullptr ? 0.0f : more[i]);
    }
  }
}

}  // namespace lockstep::nn
