// A row of a vocabulary's logits stays in the second cache between the passes over it.
#include "nn/softmax_kernel.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "nn/float_vectors.h"

#pragma GCC optimize("O3")

namespace lockstep::nn {
namespace {

constexpr int64_t kSummedAtOnce = 1024;  // the error of a sum in fp32 grows with its length

template <typename T> LOCKSTEP_ALWAYS_INLINE float largest_of(const T* logits, int64_t used) {
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  const int64_t whole = used / kFloatLanes * kFloatLanes;
  FloatVector top = load_some(logits + whole, used - whole, kLeast);
  for (int64_t i = 0; i < whole; i += kFloatLanes) {
    const FloatVector value = load_lanes(logits + i);
    top = value > top ? value : top;
  }
  return largest_lane(top);
}

template <typename T> LOCKSTEP_ALWAYS_INLINE float sum_of_exp(const T* logits, int64_t used, float top) {
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  const int64_t whole = used / kFloatLanes * kFloatLanes;
  FloatVector sum = exp_of(load_some(logits + whole, used - whole, kLeast) - top);
  for (int64_t first = 0; first < whole; first += kSummedAtOnce) {
    FloatVector part = {};
    for (int64_t i = first; i < std::min(first + kSummedAtOnce, whole); i += kFloatLanes)
      part += exp_of(load_lanes(logits + i) - top);
    sum += part;
  }
  return sum_lanes(sum);
}

template <typename T>
LOCKSTEP_ALWAYS_INLINE void stats_of(const LogitRows& shape, int64_t begin, int64_t end, const T* logits,
                                     const int64_t* target, float* top, float* sum, float* of_target) {
  for (int64_t row = begin; row < end; ++row) {
    const T* from = logits + row * shape.width;
    top[row] = largest_of(from, shape.used);
    sum[row] = sum_of_exp(from, shape.used, std::max(top[row], std::numeric_limits<float>::lowest()));
    const int64_t column = target[row];
    of_target[row] = 0 <= column && column < shape.used ? as_float(from[column]) : 0.0f;
  }
}

template <typename T>
LOCKSTEP_ALWAYS_INLINE void gradient_of(const LogitRows& shape, int64_t begin, int64_t end, T* logits,
                                        const int64_t* target, const float* top, const float* factor,
                                        const float* weight) {
  const int64_t whole = shape.used / kFloatLanes * kFloatLanes, left = shape.used - whole;
  for (int64_t row = begin; row < end; ++row) {
    T* at = logits + row * shape.width;
    const float highest = top[row], scale = factor[row];
    const int64_t column = target[row];
    const bool has_target = 0 <= column && column < shape.used;
    const float of_target = has_target ? as_float(at[column]) : 0.0f;
    for (int64_t i = 0; i < whole; i += kFloatLanes) store_lanes(at + i, exp_of(load_lanes(at + i) - highest) * scale);
    if (left > 0) store_some(at + whole, exp_of(load_some(at + whole, left) - highest) * scale, left);
    if (has_target) {
      const FloatVector value = exp_of(FloatVector{} + (of_target - highest)) * scale - weight[row];
      store_some(at + column, value, 1);
    }
    std::fill(at + shape.used, at + shape.width, T{});
  }
}

LOCKSTEP_ALWAYS_INLINE int64_t counted_keys(const ScoreRows& shape, int64_t row) {
  return shape.first_query + row % shape.queries + 1;
}

/// The vectors of a row of `used` numbers: whole ones from number 0 on, and a last one that ends with the row. It holds
/// numbers of the whole ones again, so that rows of at least one vector are read and written by vectors alone.
struct RowVectors {
  LOCKSTEP_ALWAYS_INLINE explicit RowVectors(int64_t count)
      : used(count), whole(count / kFloatLanes * kFloatLanes), last(std::max<int64_t>(0, count - kFloatLanes)) {}

  template <typename T> LOCKSTEP_ALWAYS_INLINE FloatVector load_last(const T* row, float rest) const {
    return used < kFloatLanes ? load_some(row, used, rest) : load_lanes(row + last);
  }
  template <typename T> LOCKSTEP_ALWAYS_INLINE void store_last(T* row, const FloatVector& value) const {
    if (used < kFloatLanes)
      store_some(row, value, used);
    else
      store_lanes(row + last, value);
  }
  /// 0 in place of what the whole vectors hold already.
  LOCKSTEP_ALWAYS_INLINE FloatVector only_new(const FloatVector& value) const {
    return lane_numbers() < static_cast<int32_t>(whole - last) ? FloatVector{} : value;
  }

  int64_t used, whole, last;
};

template <typename T>
LOCKSTEP_ALWAYS_INLINE void causal_softmax_of(const ScoreRows& shape, int64_t begin, int64_t end, T* scores) {
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  std::vector<float> exps(static_cast<size_t>(shape.width + kFloatLanes));
  for (int64_t row = begin; row < end; ++row) {
    T* at = scores + row * shape.width;
    float* exp = exps.data();
    const RowVectors vectors(counted_keys(shape, row));
    const FloatVector last = vectors.load_last(at, kLeast);
    FloatVector most = last;
    for (int64_t i = 0; i < vectors.whole; i += kFloatLanes) {
      const FloatVector value = load_lanes(at + i);
      most = value > most ? value : most;
    }
    const float top = largest_lane(most) * shape.scale;
    const FloatVector last_exp = exp_of(last * shape.scale - top);
    FloatVector sum = vectors.only_new(last_exp);
    for (int64_t i = 0; i < vectors.whole; i += kFloatLanes) {
      const FloatVector value = exp_of(load_lanes(at + i) * shape.scale - top);
      store_lanes(exp + i, value);
      sum += value;
    }
    const float factor = 1.0f / sum_lanes(sum);
    for (int64_t i = 0; i < vectors.whole; i += kFloatLanes) store_lanes(at + i, load_lanes(exp + i) * factor);
    vectors.store_last(at, last_exp * factor);
    std::fill(at + vectors.used, at + shape.width, T{});
  }
}

template <typename T>
LOCKSTEP_ALWAYS_INLINE void causal_softmax_backward_of(const ScoreRows& shape, int64_t begin, int64_t end, const T* y,
                                                       T* dy) {
  for (int64_t row = begin; row < end; ++row) {
    const T* p = y + row * shape.width;
    T* d = dy + row * shape.width;
    const RowVectors vectors(counted_keys(shape, row));
    const FloatVector last_p = vectors.load_last(p, 0), last_d = vectors.load_last(d, 0);
    FloatVector sum = vectors.only_new(last_p * last_d);
    for (int64_t i = 0; i < vectors.whole; i += kFloatLanes) sum += load_lanes(p + i) * load_lanes(d + i);
    const float mean = sum_lanes(sum);
    for (int64_t i = 0; i < vectors.whole; i += kFloatLanes)
      store_lanes(d + i, load_lanes(p + i) * (load_lanes(d + i) - mean) * shape.scale);
    vectors.store_last(d, last_p * (last_d - mean) * shape.scale);
    std::fill(d + vectors.used, d + shape.width, T{});
  }
}

}  // namespace

LOCKSTEP_VECTOR_CLONES
void softmax_stats_rows(const LogitRows& shape, int64_t begin, int64_t end, const void* logits, const int64_t* target,
                        float* top, float* sum, float* of_target) {
  if (shape.is_bf16) return stats_of(shape, begin, end, typed<Bfloat16Bits>(logits), target, top, sum, of_target);
  stats_of(shape, begin, end, typed<float>(logits), target, top, sum, of_target);
}

LOCKSTEP_VECTOR_CLONES
void softmax_gradient_rows(const LogitRows& shape, int64_t begin, int64_t end, void* logits, const int64_t* target,
                           const float* top, const float* factor, const float* weight) {
  if (shape.is_bf16) return gradient_of(shape, begin, end, typed<Bfloat16Bits>(logits), target, top, factor, weight);
  gradient_of(shape, begin, end, typed<float>(logits), target, top, factor, weight);
}

LOCKSTEP_VECTOR_CLONES
void causal_softmax_rows(const ScoreRows& shape, int64_t begin, int64_t end, void* scores) {
  if (shape.is_bf16) return causal_softmax_of(shape, begin, end, typed<Bfloat16Bits>(scores));
  causal_softmax_of(shape, begin, end, typed<float>(scores));
}

LOCKSTEP_VECTOR_CLONES
void causal_softmax_rows_backward(const ScoreRows& shape, int64_t begin, int64_t end, const void* y, void* dy) {
  if (shape.is_bf16)
    return causal_softmax_backward_of(shape, begin, end, typed<Bfloat16Bits>(y), typed<Bfloat16Bits>(dy));
  causal_softmax_backward_of(shape, begin, end, typed<float>(y), typed<float>(dy));
}

}  // namespace lockstep::nn
