// Letters: T tokens of a window, K head width; both are padded to whole vectors in the scratch memory.
#include "models/clap/window_kernel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/vector_clones.h"

#pragma GCC optimize("O3")
// Vectors stay within one function of one instruction set, so how they would be passed does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace lockstep::models {
namespace {

constexpr int64_t kLanes = 16, kTileRows = 4, kTileVectors = 4;
using Vector = float __attribute__((vector_size(kLanes * sizeof(float))));
using IntVector = int32_t __attribute__((vector_size(kLanes * sizeof(float))));

constexpr int64_t round_up(int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

LOCKSTEP_ALWAYS_INLINE Vector load(const float* from) {
  Vector value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}
LOCKSTEP_ALWAYS_INLINE void store(float* to, const Vector& value) { std::memcpy(to, &value, sizeof(value)); }

/// One tile of C = A B: `rows` x (16 vectors) numbers. A is read number by number, a_row and a_step apart.
template <int64_t rows, int64_t vectors>
LOCKSTEP_ALWAYS_INLINE void multiply_tile(const float* a, int64_t a_row, int64_t a_step, const float* b, int64_t b_row,
                                          float* c, int64_t c_row, int64_t depth) {
  Vector sum[rows][vectors] = {};
  for (int64_t step = 0; step < depth; ++step) {
    Vector right[vectors];
    for (int64_t v = 0; v < vectors; ++v) right[v] = load(b + step * b_row + v * kLanes);
    for (int64_t r = 0; r < rows; ++r) {
      const float left = a[r * a_row + step * a_step];
      for (int64_t v = 0; v < vectors; ++v) sum[r][v] += left * right[v];
    }
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t v = 0; v < vectors; ++v) store(c + r * c_row + v * kLanes, sum[r][v]);
}

template <int64_t vectors>
LOCKSTEP_ALWAYS_INLINE void multiply_columns(const float* a, int64_t a_row, int64_t a_step, const float* b,
                                             int64_t b_row, float* c, int64_t c_row, int64_t rows, int64_t depth) {
  int64_t row = 0;
  for (; row + kTileRows <= rows; row += kTileRows)
    multiply_tile<kTileRows, vectors>(a + row * a_row, a_row, a_step, b, b_row, c + row * c_row, c_row, depth);
  for (; row < rows; ++row)
    multiply_tile<1, vectors>(a + row * a_row, a_row, a_step, b, b_row, c + row * c_row, c_row, depth);
}

/// C [rows, columns] = A [rows, depth] B [depth, columns]; columns is a multiple of 16.
LOCKSTEP_VECTOR_CLONES
void multiply(const float* a, int64_t a_row, int64_t a_step, const float* b, int64_t b_row, float* c, int64_t c_row,
              int64_t rows, int64_t columns, int64_t depth) {
  int64_t column = 0;
  for (; column + kTileVectors * kLanes <= columns; column += kTileVectors * kLanes)
    multiply_columns<kTileVectors>(a, a_row, a_step, b + column, b_row, c + column, c_row, rows, depth);
  for (; column + 2 * kLanes <= columns; column += 2 * kLanes)
    multiply_columns<2>(a, a_row, a_step, b + column, b_row, c + column, c_row, rows, depth);
  for (; column < columns; column += kLanes)
    multiply_columns<1>(a, a_row, a_step, b + column, b_row, c + column, c_row, rows, depth);
}

/// e^x for x <= 0, relative error below 2e-7: 2^n times a polynomial (Taylor) of what is left, |rest| <= ln 2 / 2.
LOCKSTEP_ALWAYS_INLINE Vector exponential(const Vector& argument) {
  const Vector x = argument < -87.0F ? Vector{} - 87.0F : argument;
  const Vector shifted = x * 1.44269504F + 12582912.0F;  // the sum's last bits are the nearest integer
  const Vector whole = shifted - 12582912.0F;
  const Vector rest = (x - whole * 0.693359375F) + whole * 2.12194440e-4F;  // ln 2 in two pieces
  Vector sum = rest * (1.0F / 720) + 1.0F / 120;
  sum = sum * rest + 1.0F / 24;
  sum = sum * rest + 1.0F / 6;
  sum = sum * rest + 0.5F;
  sum = sum * rest + 1.0F;
  sum = sum * rest + 1.0F;
  const IntVector bits = (__builtin_convertvector(whole, IntVector) + 127) << 23;
  return sum * std::bit_cast<Vector>(bits);
}

LOCKSTEP_ALWAYS_INLINE float to_float(float value) { return value; }
LOCKSTEP_ALWAYS_INLINE float to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
LOCKSTEP_ALWAYS_INLINE void from_float(float value, float& out) { out = value; }
LOCKSTEP_ALWAYS_INLINE void from_float(float value, uint16_t& out) {  // to the nearest, ties to even; NaN stays NaN
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  out = static_cast<uint16_t>(value != value ? 0x7fc0U : rounded);
}

/// Pieces of the scratch memory; Tp and Kp are T and K in whole vectors.
struct Scratch {
  int64_t t, k, tp, kp;
  float *q, *k_rows, *v_rows, *out;  // [T, Kp]
  float *turned, *product;           // [K, Tp] or [T, Kp]
  float *p, *ds;                     // [T, Tp]
  Scratch(const WindowShape& shape, float* at)
      : t(shape.tokens), k(shape.head_width), tp(round_up(shape.tokens)), kp(round_up(shape.head_width)) {
    for (float** piece : {&q, &k_rows, &v_rows, &out}) {
      *piece = at;
      at += t * kp;
    }
    for (float** piece : {&turned, &product}) {
      *piece = at;
      at += std::max(k * tp, t * kp);
    }
    p = at;
    ds = at + t * tp;
  }
};

template <typename Number>
void read_rows(const Number* from, int64_t stride, const Scratch& s, float scale, float* rows) {
  for (int64_t i = 0; i < s.t; ++i) {
    for (int64_t j = 0; j < s.k; ++j) rows[i * s.kp + j] = scale * to_float(from[i * stride + j]);
    for (int64_t j = s.k; j < s.kp; ++j) rows[i * s.kp + j] = 0.0F;
  }
}

void turn(const float* rows, const Scratch& s, float* turned) {
  for (int64_t j = 0; j < s.k; ++j) {
    for (int64_t i = 0; i < s.t; ++i) turned[j * s.tp + i] = rows[i * s.kp + j];
    for (int64_t i = s.t; i < s.tp; ++i) turned[j * s.tp + i] = 0.0F;
  }
}

template <typename Number>
void write_rows(const float* rows, const Scratch& s, float scale, Number* to, int64_t stride) {
  for (int64_t i = 0; i < s.t; ++i)
    for (int64_t j = 0; j < s.k; ++j) from_float(scale * rows[i * s.kp + j], to[i * stride + j]);
}

/// Scores in s.p become probabilities, row by row; padding becomes 0.
LOCKSTEP_VECTOR_CLONES
void soften(const Scratch& s, const float* bias, const float* mask) {
  for (int64_t i = 0; i < s.t; ++i) {
    float* row = s.p + i * s.tp;
    const float *bias_row = bias + i * s.t, *mask_row = mask == nullptr ? nullptr : mask + i * s.t;
    for (int64_t j = 0; j < s.t; ++j) row[j] += bias_row[j];
    if (mask_row != nullptr)
      for (int64_t j = 0; j < s.t; ++j) row[j] += mask_row[j];
    for (int64_t j = s.t; j < s.tp; ++j) row[j] = -1e30F;
    Vector most = load(row);
    for (int64_t j = kLanes; j < s.tp; j += kLanes) {
      const Vector other = load(row + j);
      most = other > most ? other : most;
    }
    float highest = most[0];
    for (int64_t lane = 1; lane < kLanes; ++lane) highest = std::max(highest, most[lane]);
    Vector sums = {};
    for (int64_t j = 0; j < s.tp; j += kLanes) {
      const Vector value = exponential(load(row + j) - highest);
      store(row + j, value);
      sums += value;
    }
    for (int64_t j = s.t; j < s.tp; ++j) {
      sums[j % kLanes] -= row[j];
      row[j] = 0.0F;
    }
    float total = 0.0F;
    for (int64_t lane = 0; lane < kLanes; ++lane) total += sums[lane];
    const float factor = 1.0F / total;
    for (int64_t j = 0; j < s.tp; j += kLanes) store(row + j, load(row + j) * factor);
  }
}

/// Gradients of probabilities in s.ds become those of scores; they are those of the bias as well.
LOCKSTEP_VECTOR_CLONES
void unsoften(const Scratch& s, float* bias_gradient) {
  for (int64_t i = 0; i < s.t; ++i) {
    float *ds = s.ds + i * s.tp, *sums = bias_gradient + i * s.t;
    const float* p = s.p + i * s.tp;
    Vector dots = {};
    for (int64_t j = 0; j < s.tp; j += kLanes) dots += load(ds + j) * load(p + j);
    float dot = 0.0F;
    for (int64_t lane = 0; lane < kLanes; ++lane) dot += dots[lane];
    for (int64_t j = 0; j < s.tp; j += kLanes) store(ds + j, load(p + j) * (load(ds + j) - dot));
    for (int64_t j = 0; j < s.t; ++j) sums[j] += ds[j];
  }
}

template <typename Number> void probabilities(const Scratch& s, const WindowInput& input) {
  const auto* q = static_cast<const Number*>(input.q);
  read_rows(q, input.stride, s, 1.0F / std::sqrt(static_cast<float>(s.k)), s.q);
  read_rows(q + input.k_offset, input.stride, s, 1.0F, s.k_rows);
  read_rows(q + input.v_offset, input.stride, s, 1.0F, s.v_rows);
  turn(s.k_rows, s, s.turned);
  multiply(s.q, s.kp, 1, s.turned, s.tp, s.p, s.tp, s.t, s.tp, s.k);
  soften(s, input.bias, input.mask);
}

template <typename Number>
void forward_of(const WindowShape& shape, const WindowInput& input, void* out, int64_t out_stride, float* scratch) {
  const Scratch s(shape, scratch);
  probabilities<Number>(s, input);
  multiply(s.p, s.tp, 1, s.v_rows, s.kp, s.out, s.kp, s.t, s.kp, s.t);
  write_rows(s.out, s, 1.0F, static_cast<Number*>(out), out_stride);
}

template <typename Number>
void backward_of(const WindowShape& shape, const WindowInput& input, const void* out_gradient, int64_t out_stride,
                 void* q_gradient, float* bias_gradient, float* scratch) {
  const Scratch s(shape, scratch);
  probabilities<Number>(s, input);
  auto* dq = static_cast<Number*>(q_gradient);
  float* product = s.product;
  turn(s.v_rows, s, s.turned);
  float* d_out = s.out;
  read_rows(static_cast<const Number*>(out_gradient), out_stride, s, 1.0F, d_out);
  multiply(s.p, 1, s.tp, d_out, s.kp, product, s.kp, s.t, s.kp, s.t);  // dV = P^t dO
  write_rows(product, s, 1.0F, dq + input.v_offset, input.stride);
  multiply(d_out, s.kp, 1, s.turned, s.tp, s.ds, s.tp, s.t, s.tp, s.k);  // dP = dO V^t
  unsoften(s, bias_gradient);
  multiply(s.ds, s.tp, 1, s.k_rows, s.kp, product, s.kp, s.t, s.kp, s.t);  // dQ = dS K / sqrt(K)
  write_rows(product, s, 1.0F / std::sqrt(static_cast<float>(s.k)), dq, input.stride);
  multiply(s.ds, 1, s.tp, s.q, s.kp, product, s.kp, s.t, s.kp, s.t);  // dK = dS^t Q / sqrt(K); s.q holds Q / sqrt(K)
  write_rows(product, s, 1.0F, dq + input.k_offset, input.stride);
}

}  // namespace

int64_t window_scratch_floats(const WindowShape& shape) {
  const int64_t tp = round_up(shape.tokens), kp = round_up(shape.head_width);
  return 4 * shape.tokens * kp + 2 * std::max(shape.head_width * tp, shape.tokens * kp) + 2 * shape.tokens * tp;
}

void window_forward(const WindowShape& shape, WindowType type, const WindowInput& input, void* out, int64_t out_stride,
                    float* scratch) {
  if (type == WindowType::kFloat)
    forward_of<float>(shape, input, out, out_stride, scratch);
  else
    forward_of<uint16_t>(shape, input, out, out_stride, scratch);
}

void window_backward(const WindowShape& shape, WindowType type, const WindowInput& input, const void* out_gradient,
                     int64_t out_stride, void* q_gradient, float* bias_gradient, float* scratch) {
  if (type == WindowType::kFloat)
    backward_of<float>(shape, input, out_gradient, out_stride, q_gradient, bias_gradient, scratch);
  else
    backward_of<uint16_t>(shape, input, out_gradient, out_stride, q_gradient, bias_gradient, scratch);
}

}  // namespace lockstep::models
