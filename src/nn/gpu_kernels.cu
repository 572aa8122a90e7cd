// Kernels that spare passes over memory. NVRTC compiles them for the GPU at hand when they are first used; they include
// nothing, since a machine that runs lockstep has no CUDA toolkit. Every sum has an order that depends on sizes and on
// the number of multiprocessors alone: on one kind of GPU results do not vary.
//
// A thread owns eight columns side by side of the rows that it reads, so that it reads 16 bytes at once. Of a block
// [threadIdx.x, threadIdx.y], x goes through a row and y through the rows that the block has at a time.

struct Half {
  unsigned short bits;
};
struct BFloat16 {
  unsigned short bits;
};

#ifdef __CUDACC__  // elsewhere, in tests on the host, the includer has them
__device__ inline float widened(Half value) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
}
__device__ inline Half to_half(float value) {
  Half result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
}
__device__ inline BFloat16 to_bfloat16(float value) {
  BFloat16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
}
/// Two numbers in 8 bits, the first in the lower ones; beyond the largest finite number it is that, NaN stays NaN.
__device__ inline unsigned short to_e4m3(float first, float second) {
  unsigned short result;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(result) : "f"(second), "f"(first));
  return result;
}
__device__ inline unsigned short to_e5m2(float first, float second) {
  unsigned short result;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(result) : "f"(second), "f"(first));
  return result;
}
#endif

__device__ inline float widened(float value) { return value; }
__device__ inline float widened(BFloat16 value) { return __uint_as_float(static_cast<unsigned>(value.bits) << 16); }

/// Rounded to nearest, ties to even.
template <typename T> __device__ T rounded(float value);
template <> __device__ inline float rounded<float>(float value) { return value; }
template <> __device__ inline Half rounded<Half>(float value) { return to_half(value); }
template <> __device__ inline BFloat16 rounded<BFloat16>(float value) { return to_bfloat16(value); }

constexpr int kOwned = 8;

template <typename T> struct alignas(16) Columns { T at[kOwned]; };

template <typename T> __device__ inline void load(const T* from, float (&to)[kOwned]) {
  const Columns<T> columns = *reinterpret_cast<const Columns<T>*>(from);
#pragma unroll
  for (int i = 0; i < kOwned; ++i) to[i] = widened(columns.at[i]);
}

template <typename T> __device__ inline void store(T* to, const float (&from)[kOwned]) {
  Columns<T> columns;
#pragma unroll
  for (int i = 0; i < kOwned; ++i) columns.at[i] = rounded<T>(from[i]);
  *reinterpret_cast<Columns<T>*>(to) = columns;
}

constexpr int kWarp = 32, kMostWarps = 32;

struct Pair {
  float first, second;
};

/// Sums over the threads of a row, given to all of them. `shared` must be another one than in the call before.
__device__ inline Pair row_sums(Pair value, Pair (&shared)[kMostWarps]) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value.first += __shfl_xor_sync(0xffffffffu, value.first, offset);
    value.second += __shfl_xor_sync(0xffffffffu, value.second, offset);
  }
  if (blockDim.x == kWarp) return value;
  const int warps = blockDim.x / kWarp, first = threadIdx.y * warps;
  if (threadIdx.x % kWarp == 0) shared[first + threadIdx.x / kWarp] = value;
  __syncthreads();
  Pair sum = {0, 0};
  for (int warp = 0; warp < warps; ++warp) {
    sum.first += shared[first + warp].first;
    sum.second += shared[first + warp].second;
  }
  return sum;
}

/// out = (s - mean) rstd gain + bias, where s = x, or x + residual rounded to X, which goes to `sum`. With kIsRms there
/// is neither a mean nor a bias: both may be null.
template <typename X, typename R, typename O, typename G, bool kHasResidual, bool kIsRms = false>
__global__ void __launch_bounds__(1024)
    layer_norm_forward(long rows, int width, float epsilon, const X* x, const R* residual, const G* gain, const G* bias,
                       X* sum, O* out, float* mean, float* rstd) {
  __shared__ Pair shared[2][kMostWarps];
  const long row = static_cast<long>(blockIdx.x) * blockDim.y + threadIdx.y;
  const int column = threadIdx.x * kOwned;
  const bool is_inside = row < rows && column < width;
  const long place = row * width + column;
  float s[kOwned] = {};
  Pair total = {0, 0};
  if (is_inside) {
    load(x + place, s);
    if (kHasResidual) {
      float more[kOwned];
      load(residual + place, more);
#pragma unroll
      for (int i = 0; i < kOwned; ++i) s[i] = widened(rounded<X>(s[i] + more[i]));
      store(sum + place, s);
    }
#pragma unroll
    for (int i = 0; i < kOwned; ++i) total.first += s[i];
  }
  const float average = kIsRms ? 0 : row_sums(total, shared[0]).first / width;
  Pair squares = {0, 0};
  if (is_inside) {
#pragma unroll
    for (int i = 0; i < kOwned; ++i) {
      s[i] -= average;
      squares.first += s[i] * s[i];
    }
  }
  const float inverse = rsqrtf(row_sums(squares, shared[1]).first / width + epsilon);
  if (!is_inside) return;
  float scale[kOwned], shift[kOwned] = {};
  load(gain + column, scale);
  if (!kIsRms) load(bias + column, shift);
#pragma unroll
  for (int i = 0; i < kOwned; ++i) s[i] = s[i] * inverse * scale[i] + shift[i];
  store(out + place, s);
  if (threadIdx.x == 0) {
    if (!kIsRms) mean[row] = average;
    rstd[row] = inverse;
  }
}

/// Adds what the rows of a block have, [rows, kOwned] of each thread, and lets the first row write it.
template <int kCount> __device__ inline void add_rows(float (&mine)[kCount], float* shared, int threads, float* to) {
  float* place = shared + threadIdx.x;
  for (int row = 1; row < static_cast<int>(blockDim.y); ++row) {
    if (static_cast<int>(threadIdx.y) == row) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) place[i * threads] = mine[i];
    }
    __syncthreads();
    if (threadIdx.y == 0) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) mine[i] += place[i * threads];
    }
    __syncthreads();
  }
  if (threadIdx.y == 0 && to != nullptr) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = mine[i];
  }
}

/// dx = the gradient of s, plus dsum where it is given; the same rounded to R in `dresidual`, where that is wanted.
/// Blocks take turns with the rows and leave their sums for gain and bias in `parts` [blocks, 2, width]; with kIsRms
/// for the gain alone, [blocks, width].
template <typename X, typename R, typename O, typename G, bool kHasSum, bool kWantsResidual, bool kIsRms = false>
__global__ void __launch_bounds__(768)
    layer_norm_backward(long rows, int width, const O* dout, const X* dsum, const X* s, const float* mean,
                        const float* rstd, const G* gain, X* dx, R* dresidual, float* parts) {
  __shared__ Pair shared[2][kMostWarps];
  extern __shared__ float of_rows[];  // [kOwned, blockDim.x]
  const int column = threadIdx.x * kOwned;
  const bool has_columns = column < width;
  float scale[kOwned] = {}, dgain[kOwned] = {}, dbias[kOwned] = {};
  if (has_columns) load(gain + column, scale);
  int turn = 0;
  for (long first = static_cast<long>(blockIdx.x) * blockDim.y; first < rows;
       first += static_cast<long>(gridDim.x) * blockDim.y, turn ^= 1) {
    const long row = first + threadIdx.y;
    const bool is_inside = row < rows && has_columns;
    const long place = row * width + column;
    float d[kOwned] = {}, normed[kOwned] = {}, more[kOwned] = {};
    float inverse = 0;
    Pair sums = {0, 0};
    if (is_inside) {
      load(dout + place, d);
      load(s + place, normed);
      if (kHasSum) load(dsum + place, more);
      const float average = kIsRms ? 0 : mean[row];
      inverse = rstd[row];
#pragma unroll
      for (int i = 0; i < kOwned; ++i) {
        normed[i] = (normed[i] - average) * inverse;
        dbias[i] += d[i];
        dgain[i] += d[i] * normed[i];
        d[i] *= scale[i];
        sums.first += d[i];
        sums.second += d[i] * normed[i];
      }
    }
    sums = row_sums(sums, shared[turn]);
    if (is_inside) {
      const float a = kIsRms ? 0 : sums.first / width, b = sums.second / width;
#pragma unroll
      for (int i = 0; i < kOwned; ++i) d[i] = (d[i] - a - normed[i] * b) * inverse + more[i];
      store(dx + place, d);
      if (kWantsResidual) store(dresidual + place, d);
    }
  }
  __syncthreads();
  float* to = has_columns ? parts + static_cast<long>(blockIdx.x) * (kIsRms ? 1 : 2) * width + column : nullptr;
  add_rows(dgain, of_rows, blockDim.x, to);
  if (!kIsRms) add_rows(dbias, of_rows, blockDim.x, to == nullptr ? nullptr : to + width);
}

/// What the rows of a matrix add to the sums of its columns: themselves.
template <typename T> struct Plain {
  const T* x;
  __device__ void load_columns(long place, int, float (&to)[kOwned]) const { load(x + place, to); }
};

enum Activation { kGelu, kGeluTanh, kQuickGelu };
constexpr float kQuickGeluSlope = 1.702f, kInverseRoot2 = 0.70710678118654752440f,
                kInverseRoot2Pi = 0.39894228040143267794f, kTanhBeta = 0.79788456080286535588f, kTanhKappa = 0.044715f;

template <int kActivation> __device__ inline float activated(float x) {
  if (kActivation == kGelu) return 0.5f * x * (1.0f + erff(x * kInverseRoot2));
  if (kActivation == kGeluTanh) return 0.5f * x * (1.0f + tanhf(kTanhBeta * (x + kTanhKappa * x * x * x)));
  return x / (1.0f + expf(-kQuickGeluSlope * x));
}

template <int kActivation> __device__ inline float activation_slope(float x) {
  if (kActivation == kGelu)
    return 0.5f * (1.0f + erff(x * kInverseRoot2)) + x * (expf(-0.5f * x * x) * kInverseRoot2Pi);
  if (kActivation == kGeluTanh) {
    const float inner = tanhf(kTanhBeta * (x + kTanhKappa * x * x * x));
    return 0.5f * (1.0f + inner) + 0.5f * x * (1.0f - inner * inner) * kTanhBeta * (1.0f + 3.0f * kTanhKappa * x * x);
  }
  const float gate = 1.0f / (1.0f + expf(-kQuickGeluSlope * x));
  return gate * (1.0f + kQuickGeluSlope * x * (1.0f - gate));
}

/// x plus a bias of its columns, rounded to T before: as if the bias had been cast.
template <typename T, typename G> __device__ inline void load_biased(const T* x, const G* bias, float (&to)[kOwned]) {
  float shift[kOwned];
  load(x, to);
  load(bias, shift);
#pragma unroll
  for (int i = 0; i < kOwned; ++i) to[i] += widened(rounded<T>(shift[i]));
}

/// y = the activation of x + bias, [count / width, width].
template <typename T, typename G, int kActivation>
__global__ void __launch_bounds__(256) bias_activation(long count, int width, const T* x, const G* bias, T* y) {
  const unsigned groups = count / kOwned, groups_of_row = width / kOwned;  // of columns that a thread owns
  for (unsigned group = blockIdx.x * blockDim.x + threadIdx.x; group < groups; group += gridDim.x * blockDim.x) {
    const long place = static_cast<long>(group) * kOwned;
    float values[kOwned];
    load_biased(x + place, bias + group % groups_of_row * kOwned, values);
#pragma unroll
    for (int i = 0; i < kOwned; ++i) values[i] = activated<kActivation>(values[i]);
    store(y + place, values);
  }
}

/// The gradient of what a bias is added to before an activation; it is written on the way.
template <typename T, typename G, int kActivation> struct ThroughActivation {
  const T *dy, *x;
  const G* bias;
  T* dx;
  __device__ void load_columns(long place, int column, float (&to)[kOwned]) const {
    float in[kOwned];
    load(dy + place, to);
    load_biased(x + place, bias + column, in);
#pragma unroll
    for (int i = 0; i < kOwned; ++i) to[i] = widened(rounded<T>(to[i] * activation_slope<kActivation>(in[i])));
    store(dx + place, to);
  }
};

/// Sums over columns. Block [x, y] sums its columns over every gridDim.y-th group of rows, to parts [gridDim.y, width];
/// the last block of x to be done adds those up, in their order. `counters` [gridDim.x] are zero before and after.
template <typename Source, typename Sum>
__device__ inline void sum_columns(long rows, int width, const Source& source, float* parts, Sum* sums,
                                   unsigned* counters) {
  extern __shared__ float of_rows[];  // [kOwned, blockDim.x]
  __shared__ bool is_last;
  const int column = (blockIdx.x * blockDim.x + threadIdx.x) * kOwned;
  const bool has_columns = column < width;
  float mine[kOwned] = {};
  if (has_columns) {
    for (long row = static_cast<long>(blockIdx.y) * blockDim.y + threadIdx.y; row < rows;
         row += static_cast<long>(gridDim.y) * blockDim.y) {
      float more[kOwned];
      source.load_columns(row * width + column, column, more);
#pragma unroll
      for (int i = 0; i < kOwned; ++i) mine[i] += more[i];
    }
  }
  add_rows(mine, of_rows, blockDim.x, nullptr);
  if (gridDim.y > 1) {
    if (threadIdx.y == 0 && has_columns) store(parts + static_cast<long>(blockIdx.y) * width + column, mine);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) is_last = atomicAdd(counters + blockIdx.x, 1u) == gridDim.y - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
#pragma unroll
    for (int i = 0; i < kOwned; ++i) mine[i] = 0;
    if (has_columns) {
      for (int part = threadIdx.y; part < static_cast<int>(gridDim.y); part += blockDim.y) {
        float more[kOwned];
        load(parts + static_cast<long>(part) * width + column, more);
#pragma unroll
        for (int i = 0; i < kOwned; ++i) mine[i] += more[i];
      }
    }
    add_rows(mine, of_rows, blockDim.x, nullptr);
    if (threadIdx.x == 0 && threadIdx.y == 0) counters[blockIdx.x] = 0;
  }
  if (threadIdx.y == 0 && has_columns) store(sums + column, mine);
}

template <typename T, typename Sum>
__global__ void __launch_bounds__(256)
    column_sums(long rows, int width, const T* x, float* parts, Sum* sums, unsigned* counters) {
  sum_columns(rows, width, Plain<T>{x}, parts, sums, counters);
}

/// dx, and sums of its columns: the gradient of the bias.
template <typename T, typename G, int kActivation>
__global__ void __launch_bounds__(256)
    bias_activation_backward(long rows, int width, const T* dy, const T* x, const G* bias, T* dx, float* parts, G* sums,
                             unsigned* counters) {
  sum_columns(rows, width, ThroughActivation<T, G, kActivation>{dy, x, bias, dx}, parts, sums, counters);
}

/// y = silu(gate) value of x [rows, 2 width], whose first half are the gates.
template <typename T> __global__ void __launch_bounds__(256) swiglu(long rows, int width, const T* x, T* y) {
  const unsigned groups_of_row = width / kOwned, groups = rows * groups_of_row;
  for (unsigned group = blockIdx.x * blockDim.x + threadIdx.x; group < groups; group += gridDim.x * blockDim.x) {
    const long row = group / groups_of_row, column = group % groups_of_row * kOwned;
    float gate[kOwned], value[kOwned];
    load(x + row * 2 * width + column, gate);
    load(x + row * 2 * width + width + column, value);
#pragma unroll
    for (int i = 0; i < kOwned; ++i) gate[i] = gate[i] / (1.0f + expf(-gate[i])) * value[i];
    store(y + row * width + column, gate);
  }
}

template <typename T>
__global__ void __launch_bounds__(256) swiglu_backward(long rows, int width, const T* dy, const T* x, T* dx) {
  const unsigned groups_of_row = width / kOwned, groups = rows * groups_of_row;
  for (unsigned group = blockIdx.x * blockDim.x + threadIdx.x; group < groups; group += gridDim.x * blockDim.x) {
    const long row = group / groups_of_row, column = group % groups_of_row * kOwned;
    const long place = row * 2 * width + column;
    float gate[kOwned], value[kOwned], d[kOwned];
    load(x + place, gate);
    load(x + place + width, value);
    load(dy + row * width + column, d);
#pragma unroll
    for (int i = 0; i < kOwned; ++i) {
      const float open = 1.0f / (1.0f + expf(-gate[i])), slope = open * (1.0f + gate[i] * (1.0f - open));
      value[i] *= d[i] * slope;
      d[i] *= gate[i] * open;
    }
    store(dx + place, value);
    store(dx + place + width, d);
  }
}

/// The last steps of SplitMix64 (Steele et al. 2014).
__device__ inline unsigned long mixed_bits(unsigned long x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ul;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebul;
  return x ^ (x >> 31);
}

/// Draws of dropout: element (row, column) is drawn from (key, number of the row, column) alone.
struct Draws {
  const long* rows;  ///< Numbers; where null, row i has number i.
  unsigned long key;
  unsigned kept_of_2_24;  ///< So many of 2^24 equally likely draws keep an element.
  float factor;           ///< Of elements that are kept.

  __device__ unsigned long row_key(long row) const {
    return mixed_bits(static_cast<unsigned long>(rows == nullptr ? row : rows[row]) + key);
  }
  __device__ float scale(unsigned long row_key, unsigned long column) const {
    const unsigned drawn = static_cast<unsigned>(mixed_bits(row_key + column * 0x9e3779b97f4a7c15ul));
    return (drawn & 0xffffffu) < kept_of_2_24 ? factor : 0.0f;
  }
};

/// y = x `factor` where an element is kept, else x 0, [count / width, width]. With kIsWhole a width is a multiple of
/// kOwned and x lies such as threads read 16 bytes at once.
template <typename T, bool kIsWhole>
__global__ void __launch_bounds__(256) dropout(long count, int width, Draws draws, const T* x, T* y) {
  const unsigned groups = (count + kOwned - 1) / kOwned;
  for (unsigned group = blockIdx.x * blockDim.x + threadIdx.x; group < groups; group += gridDim.x * blockDim.x) {
    const long place = static_cast<long>(group) * kOwned;
    if (kIsWhole) {
      const unsigned groups_of_row = width / kOwned;
      const unsigned long row_key = draws.row_key(group / groups_of_row);
      const unsigned long column = group % groups_of_row * kOwned;
      float values[kOwned];
      load(x + place, values);
#pragma unroll
      for (int i = 0; i < kOwned; ++i) values[i] *= draws.scale(row_key, column + i);
      store(y + place, values);
    } else {
      long row = place / width;
      int column = place % width;
      unsigned long row_key = draws.row_key(row);
      for (long i = place; i < place + kOwned && i < count; ++i, ++column) {
        if (column == width) {
          column = 0;
          row_key = draws.row_key(++row);
        }
        y[i] = rounded<T>(widened(x[i]) * draws.scale(row_key, column));
      }
    }
  }
}

/// Where the rows of up to three dims begin: numbers between neighbours in each.
struct Strides {
  long at[3];
};

/// Row r of [.., n1, n2] rows.
__device__ inline long row_begin(long row, int n1, int n2, const Strides& strides) {
  const unsigned outer = static_cast<unsigned>(row) / n2, last = static_cast<unsigned>(row) % n2;
  return outer / n1 * strides.at[0] + outer % n1 * strides.at[1] + last * strides.at[2];
}

/// Copies rows of `width` numbers side by side, [rows / (n1 n2), n1, n2] of them, from one place to another. Numbers of
/// 16 bits.
__global__ void __launch_bounds__(256) copy_rows(long rows, int n1, int n2, int width, const BFloat16* from,
                                                 Strides from_strides, BFloat16* to, Strides to_strides) {
  for (long row = static_cast<long>(blockIdx.x) * blockDim.y + threadIdx.y; row < rows;
       row += static_cast<long>(gridDim.x) * blockDim.y) {
    const BFloat16* source = from + row_begin(row, n1, n2, from_strides);
    BFloat16* target = to + row_begin(row, n1, n2, to_strides);
    for (int column = threadIdx.x * kOwned; column < width; column += blockDim.x * kOwned)
      *reinterpret_cast<Columns<BFloat16>*>(target + column) =
          *reinterpret_cast<const Columns<BFloat16>*>(source + column);
  }
}

/// Turns elements i and i + half, i < half, of rows of `width` numbers by the angle of their position: rows [positions,
/// groups, heads], blockIdx.x the position. With `direction` -1 back again. The rest of a row is copied.
template <typename T>
__global__ void __launch_bounds__(256)
    rotate(int samples, int groups, int heads, int width, int half, float direction, const T* x, long token_stride,
           Strides x_strides, const T* cosine, const T* sine, int table_samples, T* y) {
  const int token = blockIdx.x / samples, sample = blockIdx.x % samples;
  const long table_row = (static_cast<long>(token) * table_samples + (table_samples == 1 ? 0 : sample)) * half;
  const int pairs = half / kOwned, rest = (width - 2 * half) / kOwned, of_row = pairs + rest;
  for (int i = threadIdx.x; i < groups * heads * of_row; i += blockDim.x) {
    const int row = i / of_row, part = i % of_row;
    const T* source = x + token * token_stride + sample * x_strides.at[0] + row / heads * x_strides.at[1] +
                      row % heads * x_strides.at[2];
    T* target = y + (static_cast<long>(blockIdx.x) * groups * heads + row) * width;
    float first[kOwned], second[kOwned];
    if (part >= pairs) {
      const int column = 2 * half + (part - pairs) * kOwned;
      load(source + column, first);
      store(target + column, first);
      continue;
    }
    const int column = part * kOwned;
    float c[kOwned], s[kOwned];
    load(source + column, first);
    load(source + half + column, second);
    load(cosine + table_row + column, c);
    load(sine + table_row + column, s);
#pragma unroll
    for (int k = 0; k < kOwned; ++k) {
      s[k] *= direction;
      const float turned = first[k] * c[k] - second[k] * s[k];
      second[k] = second[k] * c[k] + first[k] * s[k];
      first[k] = turned;
    }
    store(target + column, first);
    store(target + half + column, second);
  }
}

constexpr int kRowThreads = 512;

/// What is taken from logits before exp: their largest. Where that is -inf there were only -inf and NaN, which fmaxf
/// passes over; less 0 their exp stays 0 and NaN.
__device__ inline float finite_top(float top) { return top == -__int_as_float(0x7f800000) ? 0.0f : top; }

/// Of each row of logits [rows, width], a block each, only the first `used` columns of which count: stats [3, rows] get
/// the largest, the sum of exp(logit - largest), and the logit of column targets[row], 0 where that is no column.
template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    softmax_stats(long rows, int width, int used, const T* logits, const long* targets, float* stats) {
  __shared__ float tops[kRowThreads / kWarp], sums[kRowThreads / kWarp];
  const long row = blockIdx.x;
  const T* own = logits + row * width;
  float top = -__int_as_float(0x7f800000), sum = 0;
  for (int column = threadIdx.x * kOwned; column < used; column += kRowThreads * kOwned) {
    float values[kOwned];
    load(own + column, values);
    float most = top;
#pragma unroll
    for (int i = 0; i < kOwned; ++i)
      if (column + i < used) most = fmaxf(most, values[i]);
    float more = 0;
#pragma unroll
    for (int i = 0; i < kOwned; ++i)
      if (column + i < used) more += expf(values[i] - finite_top(most));
    sum = sum * expf(top - finite_top(most)) + more;
    top = most;
  }
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const float other_top = __shfl_xor_sync(0xffffffffu, top, offset),
                other = __shfl_xor_sync(0xffffffffu, sum, offset);
    const float most = fmaxf(top, other_top);
    sum = sum * expf(top - finite_top(most)) + other * expf(other_top - finite_top(most));
    top = most;
  }
  if (threadIdx.x % kWarp == 0) {
    tops[threadIdx.x / kWarp] = top;
    sums[threadIdx.x / kWarp] = sum;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kRowThreads / kWarp; ++warp) {
    const float most = fmaxf(top, tops[warp]);
    sum = sum * expf(top - finite_top(most)) + sums[warp] * expf(tops[warp] - finite_top(most));
    top = most;
  }
  const long target = targets[row];
  stats[row] = top;
  stats[rows + row] = sum;
  stats[2 * rows + row] = target >= 0 && target < used ? widened(own[target]) : 0;
}

/// logits become the gradient of the loss: exp(logit - top) factor, less `weight` in the target's column; 0 from column
/// `used` on. All of a row: tops, factors, weights [rows].
template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    softmax_gradient(int width, int used, T* logits, const long* targets, const float* tops, const float* factors,
                     const float* weights) {
  const long row = blockIdx.x, target = targets[row];
  T* own = logits + row * width;
  const float top = tops[row], factor = factors[row], weight = weights[row];
  for (int column = threadIdx.x * kOwned; column < width; column += kRowThreads * kOwned) {
    float values[kOwned];
    load(own + column, values);
#pragma unroll
    for (int i = 0; i < kOwned; ++i) {
      const int place = column + i;
      values[i] = place < used ? expf(values[i] - top) * factor - (place == target ? weight : 0.0f) : 0.0f;
    }
    store(own + column, values);
  }
}

enum Fp8Type { kE4M3, kE5M2 };

template <int kType> __device__ inline unsigned short narrowed(float first, float second) {
  return kType == kE4M3 ? to_e4m3(first, second) : to_e5m2(first, second);
}

constexpr int kTile = 64, kTileThreads = 256, kTileRowBytes = kTile + 4;

/// x [rows, width] times *scale in 8 bits: to `bits` [rows, width], to `transposed` [width, rows], either may be null.
/// The largest absolute value goes to *amax where that is larger; amax may be null. Multiples of 8 both.
template <typename T, int kType>
__global__ void __launch_bounds__(kTileThreads)
    fp8_quantize(long rows, int width, const T* x, const float* scale, unsigned char* bits, unsigned char* transposed,
                 float* amax) {
  __shared__ alignas(16) unsigned char tile[kTile * kTileRowBytes];
  __shared__ unsigned largest[kTileThreads / kWarp];
  constexpr int kThreadsOfRow = kTile / kOwned, kRowsAtOnce = kTileThreads / kThreadsOfRow;
  const long first_row = static_cast<long>(blockIdx.x) * kTile;
  const int first_column = blockIdx.y * kTile, thread = threadIdx.x;
  const float factor = *scale;
  unsigned most = 0;  // as bits: larger ones are larger numbers, NaN the largest
  const int column = thread % kThreadsOfRow * kOwned;
#pragma unroll
  for (int r = 0; r < kTile; r += kRowsAtOnce) {
    const int row = r + thread / kThreadsOfRow;
    if (first_row + row >= rows || first_column + column >= width) continue;
    const long place = (first_row + row) * width + first_column + column;
    float values[kOwned];
    load(x + place, values);
    unsigned words[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < kOwned; i += 2) {
      most = max(most, __float_as_uint(values[i]) & 0x7fffffffu);
      most = max(most, __float_as_uint(values[i + 1]) & 0x7fffffffu);
      words[i / 4] |= static_cast<unsigned>(narrowed<kType>(values[i] * factor, values[i + 1] * factor)) << i % 4 * 8;
    }
    if (bits != nullptr) *reinterpret_cast<uint2*>(bits + place) = make_uint2(words[0], words[1]);
    unsigned* in_tile = reinterpret_cast<unsigned*>(tile + row * kTileRowBytes + column);
    in_tile[0] = words[0];
    in_tile[1] = words[1];
  }
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) most = max(most, __shfl_xor_sync(0xffffffffu, most, offset));
  if (thread % kWarp == 0) largest[thread / kWarp] = most;
  __syncthreads();
  if (thread == 0 && amax != nullptr) {
    for (unsigned other : largest) most = max(most, other);
    atomicMax(reinterpret_cast<unsigned*>(amax), most);
  }
  if (transposed == nullptr) return;
  const int row = thread % kThreadsOfRow * kOwned;
#pragma unroll
  for (int c = 0; c < kTile; c += kRowsAtOnce) {
    const int from = c + thread / kThreadsOfRow;
    if (first_row + row >= rows || first_column + from >= width) continue;
    unsigned words[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < kOwned; ++i)
      words[i / 4] |= static_cast<unsigned>(tile[(row + i) * kTileRowBytes + from]) << i % 4 * 8;
    *reinterpret_cast<uint2*>(transposed + static_cast<long>(first_column + from) * rows + first_row + row) =
        make_uint2(words[0], words[1]);
  }
}
