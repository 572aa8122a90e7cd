// Both activations are x sigmoid(c(x)), which one exp gives: GELU's approximation is x (1 + tanh(u)) / 2 with
// u = sqrt(2 / pi) (x + 0.044715 x^3), so c = 2 u; QuickGELU has c = 1.702 x.
#include "nn/activation_kernel.h"

#include <algorithm>

#include "nn/float_vectors.h"

#pragma GCC optimize("O3")

namespace lockstep::nn {
namespace {

constexpr float kTwoRootsOf2OverPi = 1.5957691216f, kCubeFactor = 0.044715f;
constexpr auto kSlope = static_cast<float>(kQuickGeluSlope);

template <bool kIsTanh> LOCKSTEP_ALWAYS_INLINE FloatVector activated(const FloatVector& x) {
  if constexpr (kIsTanh) return x * sigmoid_of(kTwoRootsOf2OverPi * x * (1.0f + kCubeFactor * x * x));
  return x * sigmoid_of(kSlope * x);
}

template <bool kIsTanh> LOCKSTEP_ALWAYS_INLINE FloatVector derivative(const FloatVector& x) {
  if constexpr (kIsTanh) {
    const FloatVector square = x * x, gate = sigmoid_of(kTwoRootsOf2OverPi * x * (1.0f + kCubeFactor * square));
    return gate + gate * (1.0f - gate) * (kTwoRootsOf2OverPi * x * (1.0f + 3 * kCubeFactor * square));
  }
  const FloatVector gate = sigmoid_of(kSlope * x);
  return gate + gate * (1.0f - gate) * (kSlope * x);
}

template <typename T, bool kIsTanh>
LOCKSTEP_ALWAYS_INLINE void activate_rows(int64_t width, int64_t begin, int64_t end, const T* x, const float* bias,
                                          T* y) {
  const int64_t whole = width / kFloatLanes * kFloatLanes, left = width - whole;
  for (int64_t row = begin; row < end; ++row) {
    const T* from = x + row * width;
    T* to = y + row * width;
    for (int64_t i = 0; i < whole; i += kFloatLanes)
      store_lanes(to + i, activated<kIsTanh>(load_lanes(from + i) + load_lanes(bias + i)));
    if (left > 0)
      store_some(to + whole, activated<kIsTanh>(load_some(from + whole, left) + load_some(bias + whole, left)), left);
  }
}

template <typename T, bool kIsTanh>
LOCKSTEP_ALWAYS_INLINE void rows_backward(int64_t width, int64_t begin, int64_t end, const T* x, const float* bias,
                                          const T* dy, T* dx, float* dbias) {
  const int64_t whole = width / kFloatLanes * kFloatLanes, left = width - whole;
  std::fill(dbias, dbias + width, 0.0f);
  for (int64_t row = begin; row < end; ++row) {
    const T *from = x + row * width, *d = dy + row * width;
    T* to = dx + row * width;
    for (int64_t i = 0; i < whole; i += kFloatLanes) {
      const FloatVector g = load_lanes(d + i) * derivative<kIsTanh>(load_lanes(from + i) + load_lanes(bias + i));
      store_lanes(to + i, g);
      store_lanes(dbias + i, load_lanes(dbias + i) + g);
    }
    if (left > 0) {
      const FloatVector sum = load_some(from + whole, left) + load_some(bias + whole, left);
      const FloatVector g = load_some(d + whole, left) * derivative<kIsTanh>(sum);
      store_some(to + whole, g, left);
      store_some(dbias + whole, load_some(dbias + whole, left) + g, left);
    }
  }
}

}  // namespace

LOCKSTEP_VECTOR_CLONES
void bias_activation_rows(const ActivationRows& shape, Activation activation, int64_t begin, int64_t end, const void* x,
                          const float* bias, void* y) {
  const bool is_tanh = activation == Activation::kGeluTanh;
  const auto* x16 = typed<Bfloat16Bits>(x);
  const auto* x32 = typed<float>(x);
  auto* y16 = typed<Bfloat16Bits>(y);
  auto* y32 = typed<float>(y);
  if (shape.is_bf16 && is_tanh) return activate_rows<Bfloat16Bits, true>(shape.width, begin, end, x16, bias, y16);
  if (shape.is_bf16) return activate_rows<Bfloat16Bits, false>(shape.width, begin, end, x16, bias, y16);
  if (is_tanh) return activate_rows<float, true>(shape.width, begin, end, x32, bias, y32);
  activate_rows<float, false>(shape.width, begin, end, x32, bias, y32);
}

LOCKSTEP_VECTOR_CLONES
void bias_activation_rows_backward(const ActivationRows& shape, Activation activation, int64_t begin, int64_t end,
                                   const void* x, const float* bias, const void* dy, void* dx, float* dbias) {
  const bool is_tanh = activation == Activation::kGeluTanh;
  const auto *x16 = typed<Bfloat16Bits>(x), *dy16 = typed<Bfloat16Bits>(dy);
  const auto *x32 = typed<float>(x), *dy32 = typed<float>(dy);
  auto* dx16 = typed<Bfloat16Bits>(dx);
  auto* dx32 = typed<float>(dx);
  if (shape.is_bf16 && is_tanh)
    return rows_backward<Bfloat16Bits, true>(shape.width, begin, end, x16, bias, dy16, dx16, dbias);
  if (shape.is_bf16) return rows_backward<Bfloat16Bits, false>(shape.width, begin, end, x16, bias, dy16, dx16, dbias);
  if (is_tanh) return rows_backward<float, true>(shape.width, begin, end, x32, bias, dy32, dx32, dbias);
  rows_backward<float, false>(shape.width, begin, end, x32, bias, dy32, dx32, dbias);
}

}  // namespace lockstep::nn
