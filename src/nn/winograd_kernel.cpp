// Letters: B picture, Y X pixel, C input channel, O output channel, F one of the 16 frequencies of a tile, T tile.
// Everything that products read lies in panels of `lanes` channels, so that they read memory in its order.
#include "nn/winograd_kernel.h"

#include <cstring>

#include "core/vector_clones.h"

#pragma GCC optimize("O3")
// Vectors stay within one function of one instruction set, so how they would be passed does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace lockstep::nn {
namespace {

constexpr int64_t kTileEdge = 4, kOutputEdge = 2, kFilterEdge = 3, kFilterNumbers = 9;
constexpr int64_t kNarrow = 16, kWide = 32;  // lanes of a panel with AVX2 and with AVX-512

/// Two vectors side by side.
template <int64_t kLanes> struct Panel {
  typedef float Half __attribute__((vector_size(kLanes / 2 * sizeof(float))));
  Half low, high;

  static LOCKSTEP_ALWAYS_INLINE Panel zero() { return {Half{}, Half{}}; }
  static LOCKSTEP_ALWAYS_INLINE Panel at(const float* from) {
    Panel panel;
    std::memcpy(&panel.low, from, sizeof(Half));
    std::memcpy(&panel.high, from + kLanes / 2, sizeof(Half));
    return panel;
  }
  LOCKSTEP_ALWAYS_INLINE void put(float* to) const {
    std::memcpy(to, &low, sizeof(Half));
    std::memcpy(to + kLanes / 2, &high, sizeof(Half));
  }
  LOCKSTEP_ALWAYS_INLINE Panel operator+(const Panel& other) const { return {low + other.low, high + other.high}; }
  LOCKSTEP_ALWAYS_INLINE Panel operator-(const Panel& other) const { return {low - other.low, high - other.high}; }
};

template <int64_t kLanes> using Vector = typename Panel<kLanes>::Half;
template <int64_t kLanes> LOCKSTEP_ALWAYS_INLINE Vector<kLanes> vector_at(const float* from) {
  Vector<kLanes> vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}

/// sums[r] += the sum over k of a[r * kRowStep + k * kStep] times panel k of b.
template <int64_t kLanes, int64_t kRows, int64_t kRowStep, int64_t kStep>
LOCKSTEP_ALWAYS_INLINE void add_products(Panel<kLanes> (&sums)[kRows], const float* a, const float* b, int64_t count) {
  Vector<kLanes> low[kRows], high[kRows];  // stay in registers, as members of structures do not
#pragma GCC unroll 8
  for (int64_t row = 0; row < kRows; ++row) low[row] = sums[row].low, high[row] = sums[row].high;
  for (int64_t k = 0; k < count; ++k, a += kStep, b += kLanes) {
    const Vector<kLanes> b_low = vector_at<kLanes>(b), b_high = vector_at<kLanes>(b + kLanes / 2);
#pragma GCC unroll 8
    for (int64_t row = 0; row < kRows; ++row) {
      low[row] += b_low * a[row * kRowStep];
      high[row] += b_high * a[row * kRowStep];
    }
  }
#pragma GCC unroll 8
  for (int64_t row = 0; row < kRows; ++row) sums[row].low = low[row], sums[row].high = high[row];
}

// The transforms of one dimension of 4, 2 and 3 numbers; those of a tile are of its rows, then of its columns.
template <typename T> LOCKSTEP_ALWAYS_INLINE void transform_inputs(T& a, T& b, T& c, T& d) {
  const T first = a - c, second = b + c, third = c - b, fourth = b - d;
  a = first, b = second, c = third, d = fourth;
}
template <typename T> LOCKSTEP_ALWAYS_INLINE void transform_gradients(T& a, T& b, T& c, T& d) {  // of a and b
  const T sum = a + b, difference = a - b;
  d = -b, b = sum, c = difference;
}

struct Place {
  int64_t picture, y, x;  // of the first output of a tile
};
LOCKSTEP_ALWAYS_INLINE Place place_of(const WinogradShape& shape, int64_t tile) {
  const int64_t across = shape.tiles_across(), row = tile / across, down = shape.tiles_down();
  return {row / down, row % down * kOutputEdge, tile % across * kOutputEdge};
}

/// Numbers of [kEdge, kEdge] pixels from (y, x) on, 0 outside the picture.
template <int64_t kLanes, int64_t kEdge>
LOCKSTEP_ALWAYS_INLINE void read_pixels(const WinogradShape& shape, const float* picture, int64_t channels, int64_t y,
                                        int64_t x, Vector<kLanes> (&tile)[kTileEdge][kTileEdge]) {
  const bool is_inner = y >= 0 && x >= 0 && y + kEdge <= shape.rows && x + kEdge <= shape.columns;
  const float* corner = picture + (y * shape.columns + x) * channels;
#pragma GCC unroll 4
  for (int64_t i = 0; i < kEdge; ++i) {
#pragma GCC unroll 4
    for (int64_t j = 0; j < kEdge; ++j) {
      const bool is_inside = is_inner || (y + i >= 0 && y + i < shape.rows && x + j >= 0 && x + j < shape.columns);
      tile[i][j] = is_inside ? vector_at<kLanes>(corner + (i * shape.columns + j) * channels) : Vector<kLanes>{};
    }
  }
}

/// From a vector of channels of a tile to its 16 frequencies, `step` numbers apart.
template <int64_t kLanes>
LOCKSTEP_ALWAYS_INLINE void transform_vector(const WinogradShape& shape, const float* picture, bool is_gradient,
                                             int64_t channels, const Place& place, int64_t step, float* to) {
  Vector<kLanes> t[kTileEdge][kTileEdge];
  if (is_gradient) {
    read_pixels<kLanes, kOutputEdge>(shape, picture, channels, place.y, place.x, t);
#pragma GCC unroll 2
    for (int64_t j = 0; j < kOutputEdge; ++j) transform_gradients(t[0][j], t[1][j], t[2][j], t[3][j]);
#pragma GCC unroll 4
    for (auto& row : t) transform_gradients(row[0], row[1], row[2], row[3]);
  } else {
    read_pixels<kLanes, kTileEdge>(shape, picture, channels, place.y - 1, place.x - 1, t);
#pragma GCC unroll 4
    for (int64_t j = 0; j < kTileEdge; ++j) transform_inputs(t[0][j], t[1][j], t[2][j], t[3][j]);
#pragma GCC unroll 4
    for (auto& row : t) transform_inputs(row[0], row[1], row[2], row[3]);
  }
#pragma GCC unroll 16
  for (int64_t f = 0; f < kWinogradFrequencies; ++f)
    std::memcpy(to + f * step, &t[f / kTileEdge][f % kTileEdge], sizeof(Vector<kLanes>));
}

template <int64_t kLanes>
LOCKSTEP_ALWAYS_INLINE void transform_tile(const WinogradShape& shape, const float* pictures, bool is_gradient,
                                           const Place& place, int64_t num_tiles, int64_t index, float* transformed) {
  const int64_t channels = is_gradient ? shape.outputs : shape.inputs;
  const float* picture = pictures + place.picture * shape.rows * shape.columns * channels;
  for (int64_t c = 0; c < channels; c += kLanes / 2)
    transform_vector<kLanes>(shape, picture + c, is_gradient, channels, place, channels * num_tiles,
                             transformed + (c / kLanes * num_tiles + index) * kLanes + c % kLanes);
}

/// Products of one frequency: of kRows tiles with all filters of one panel.
template <int64_t kLanes>
LOCKSTEP_ALWAYS_INLINE void multiply_tiles(const WinogradShape& shape, const float* tiles, const float* filters,
                                           int64_t num_tiles, int64_t first, float* products) {
  Panel<kLanes> sums[kWinogradRows];
#pragma GCC unroll 8
  for (auto& sum : sums) sum = Panel<kLanes>::zero();
  for (int64_t c = 0; c < shape.inputs; c += kLanes)
    add_products<kLanes, kWinogradRows, kLanes, 1>(sums, tiles + (c * num_tiles) + first * kLanes, filters + c * kLanes,
                                                   kLanes);
#pragma GCC unroll 8
  for (int64_t row = 0; row < kWinogradRows; ++row) sums[row].put(products + (first + row) * kLanes);
}

template <int64_t kLanes>
LOCKSTEP_ALWAYS_INLINE void write_tile(const WinogradShape& shape, const float* products, const Place& place,
                                       int64_t num_tiles, int64_t index, float* y) {
  const int64_t num_panels = shape.outputs / kLanes;
  float* picture = y + place.picture * shape.rows * shape.columns * shape.outputs;
  for (int64_t panel = 0; panel < num_panels; ++panel) {
    Panel<kLanes> half[kOutputEdge][kTileEdge];
    const auto at = [&](int64_t i, int64_t j) {
      const int64_t frequency = i * kTileEdge + j;
      return Panel<kLanes>::at(products + ((frequency * num_panels + panel) * num_tiles + index) * kLanes);
    };
#pragma GCC unroll 4
    for (int64_t j = 0; j < kTileEdge; ++j) {
      const Panel<kLanes> middle = at(1, j), third = at(2, j);
      half[0][j] = at(0, j) + middle + third;
      half[1][j] = middle - third - at(3, j);
    }
#pragma GCC unroll 2
    for (int64_t i = 0; i < kOutputEdge; ++i) {
      if (place.y + i >= shape.rows) break;
      float* to = picture + ((place.y + i) * shape.columns + place.x) * shape.outputs + panel * kLanes;
      (half[i][0] + half[i][1] + half[i][2]).put(to);
      if (place.x + 1 < shape.columns) (half[i][1] - half[i][2] - half[i][3]).put(to + shape.outputs);
    }
  }
}

int64_t whole_rows(int64_t num_tiles) { return (num_tiles + kWinogradRows - 1) / kWinogradRows * kWinogradRows; }

template <int64_t kLanes>
LOCKSTEP_ALWAYS_INLINE void tiles_of(const WinogradShape& shape, const float* x, const float* packed,
                                     int64_t first_tile, int64_t last_tile, float* scratch, float* y) {
  const int64_t num_tiles = last_tile - first_tile, padded = whole_rows(num_tiles);
  float *tiles = scratch, *products = scratch + kWinogradFrequencies * shape.inputs * padded;
  for (int64_t i = 0; i < num_tiles; ++i)
    transform_tile<kLanes>(shape, x, false, place_of(shape, first_tile + i), padded, i, tiles);
  for (int64_t f = 0; f < kWinogradFrequencies; ++f)
    for (int64_t o = 0; o < shape.outputs; o += kLanes)
      for (int64_t i = 0; i < padded; i += kWinogradRows)
        multiply_tiles<kLanes>(shape, tiles + f * shape.inputs * padded,
                               packed + (f * shape.outputs + o) * shape.inputs, padded, i,
                               products + (f * shape.outputs + o) * padded);
  for (int64_t i = 0; i < num_tiles; ++i)
    write_tile<kLanes>(shape, products, place_of(shape, first_tile + i), padded, i, y);
}

/// G g G^T, of `lanes` filters side by side.
template <int64_t kLanes>
LOCKSTEP_ALWAYS_INLINE void transform_filters(const Vector<kLanes> (&g)[kFilterEdge][kFilterEdge],
                                              Vector<kLanes> (&out)[kTileEdge][kTileEdge]) {
  Vector<kLanes> rows[kTileEdge][kFilterEdge];
  for (int64_t j = 0; j < kFilterEdge; ++j) {
    const Vector<kLanes> outer = (g[0][j] + g[2][j]) * 0.5f, middle = g[1][j] * 0.5f;
    rows[0][j] = g[0][j], rows[1][j] = outer + middle, rows[2][j] = outer - middle, rows[3][j] = g[2][j];
  }
  for (int64_t i = 0; i < kTileEdge; ++i) {
    const Vector<kLanes> outer = (rows[i][0] + rows[i][2]) * 0.5f, middle = rows[i][1] * 0.5f;
    out[i][0] = rows[i][0], out[i][1] = outer + middle, out[i][2] = outer - middle, out[i][3] = rows[i][2];
  }
}

/// G^T u G: the transpose of transform_filters.
template <int64_t kLanes>
LOCKSTEP_ALWAYS_INLINE void gather_filters(const Vector<kLanes> (&u)[kTileEdge][kTileEdge],
                                           Vector<kLanes> (&out)[kFilterEdge][kFilterEdge]) {
  Vector<kLanes> rows[kFilterEdge][kTileEdge];
  for (int64_t j = 0; j < kTileEdge; ++j) {
    const Vector<kLanes> even = (u[1][j] + u[2][j]) * 0.5f;
    rows[0][j] = u[0][j] + even, rows[1][j] = (u[1][j] - u[2][j]) * 0.5f, rows[2][j] = even + u[3][j];
  }
  for (int64_t i = 0; i < kFilterEdge; ++i) {
    const Vector<kLanes> even = (rows[i][1] + rows[i][2]) * 0.5f;
    out[i][0] = rows[i][0] + even, out[i][1] = (rows[i][1] - rows[i][2]) * 0.5f, out[i][2] = even + rows[i][3];
  }
}

/// Panels of the outer channels: the outputs, or with is_turned the inputs.
template <int64_t kLanes>
LOCKSTEP_ALWAYS_INLINE void filters_of(const WinogradShape& shape, const float* filters, bool is_turned,
                                       int64_t first_panel, int64_t last_panel, float* packed) {
  const int64_t inner = is_turned ? shape.outputs : shape.inputs, outer = is_turned ? shape.inputs : shape.outputs;
  const int64_t outer_step = is_turned ? kFilterNumbers : shape.inputs * kFilterNumbers;
  const int64_t inner_step = is_turned ? shape.inputs * kFilterNumbers : kFilterNumbers;
  constexpr int64_t kWidth = kLanes / 2;
  for (int64_t o = first_panel * kLanes; o < last_panel * kLanes; o += kWidth) {
    for (int64_t i = 0; i < inner; ++i) {
      const float* from = filters + o * outer_step + i * inner_step;
      float turned[kFilterNumbers][kWidth];
      for (int64_t lane = 0; lane < kWidth; ++lane)
        for (int64_t n = 0; n < kFilterNumbers; ++n)
          turned[n][lane] = from[lane * outer_step + (is_turned ? kFilterNumbers - 1 - n : n)];
      Vector<kLanes> filter[kFilterEdge][kFilterEdge], out[kTileEdge][kTileEdge];
      std::memcpy(&filter, &turned, sizeof(filter));
      transform_filters<kLanes>(filter, out);
      for (int64_t f = 0; f < kWinogradFrequencies; ++f)
        std::memcpy(packed + (f * outer + o / kLanes * kLanes) * inner + i * kLanes + o % kLanes,
                    &out[f / kTileEdge][f % kTileEdge], sizeof(Vector<kLanes>));
    }
  }
}

template <int64_t kLanes>
LOCKSTEP_ALWAYS_INLINE void filter_gradient_of(const WinogradShape& shape, const float* sums, int64_t first_panel,
                                               int64_t last_panel, float* gradient) {
  constexpr int64_t kWidth = kLanes / 2;
  for (int64_t o = first_panel * kLanes; o < last_panel * kLanes; o += kWidth) {
    for (int64_t i = 0; i < shape.inputs; ++i) {
      Vector<kLanes> u[kTileEdge][kTileEdge], filter[kFilterEdge][kFilterEdge];
      for (int64_t f = 0; f < kWinogradFrequencies; ++f)
        u[f / kTileEdge][f % kTileEdge] = vector_at<kLanes>(sums + (f * shape.inputs + i) * shape.outputs + o);
      gather_filters<kLanes>(u, filter);
      float turned[kFilterNumbers][kWidth];
      std::memcpy(&turned, &filter, sizeof(filter));
      for (int64_t lane = 0; lane < kWidth; ++lane)
        for (int64_t n = 0; n < kFilterNumbers; ++n)
          gradient[((o + lane) * shape.inputs + i) * kFilterNumbers + n] = turned[n][lane];
    }
  }
}

/// Of kRows inputs of a panel, from `row` on, and all panels of outputs.
template <int64_t kLanes, int64_t kRows>
LOCKSTEP_ALWAYS_INLINE void add_rows(const WinogradShape& shape, const float* inputs, const float* gradients,
                                     int64_t num_tiles, int64_t row, float* sums) {
  for (int64_t o = 0; o < shape.outputs; o += kLanes) {
    Panel<kLanes> total[kRows];
    float* to = sums + row * shape.outputs + o;
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRows; ++r) total[r] = Panel<kLanes>::at(to + r * shape.outputs);
    add_products<kLanes, kRows, 1, kLanes>(total, inputs + row, gradients + o * num_tiles, num_tiles);
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRows; ++r) total[r].put(to + r * shape.outputs);
  }
}

template <int64_t kLanes>
LOCKSTEP_ALWAYS_INLINE void add_products_of(const WinogradShape& shape, const float* inputs, const float* gradients,
                                            int64_t num_tiles, int64_t frequency, int64_t panel, float* sums) {
  const float* a = inputs + (frequency * shape.inputs + panel * kLanes) * num_tiles;
  const float* b = gradients + frequency * shape.outputs * num_tiles;
  float* to = sums + (frequency * shape.inputs + panel * kLanes) * shape.outputs;
  constexpr int64_t kWhole = kLanes / kWinogradRows * kWinogradRows;
  for (int64_t row = 0; row < kWhole; row += kWinogradRows)
    add_rows<kLanes, kWinogradRows>(shape, a, b, num_tiles, row, to);
  add_rows<kLanes, kLanes - kWhole>(shape, a, b, num_tiles, kWhole, to);
}

template <int64_t kLanes>
LOCKSTEP_ALWAYS_INLINE void transform_of(const WinogradShape& shape, const float* pictures, bool is_gradient,
                                         const WinogradChunk& chunk, int64_t first_tile, int64_t last_tile,
                                         float* transformed) {
  for (int64_t tile = first_tile; tile < last_tile; ++tile)
    transform_tile<kLanes>(shape, pictures, is_gradient, place_of(shape, tile), chunk.num_tiles,
                           tile - chunk.first_tile, transformed);
}

}  // namespace

int64_t winograd_lanes() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("x86-64-v4")) return kWide;
  if (__builtin_cpu_supports("x86-64-v3")) return kNarrow;
#endif
  return 0;
}

LOCKSTEP_VECTOR_CLONES
void winograd_filters(const WinogradShape& shape, const float* filters, bool is_turned, int64_t first_panel,
                      int64_t last_panel, float* packed) {
  if (shape.lanes == kWide)
    filters_of<kWide>(shape, filters, is_turned, first_panel, last_panel, packed);
  else
    filters_of<kNarrow>(shape, filters, is_turned, first_panel, last_panel, packed);
}

int64_t winograd_scratch(const WinogradShape& shape, int64_t num_tiles) {
  return kWinogradFrequencies * (shape.inputs + shape.outputs) * whole_rows(num_tiles);
}

LOCKSTEP_VECTOR_CLONES
void winograd_tiles(const WinogradShape& shape, const float* x, const float* packed, int64_t first_tile,
                    int64_t last_tile, float* scratch, float* y) {
  if (shape.lanes == kWide)
    tiles_of<kWide>(shape, x, packed, first_tile, last_tile, scratch, y);
  else
    tiles_of<kNarrow>(shape, x, packed, first_tile, last_tile, scratch, y);
}

LOCKSTEP_VECTOR_CLONES
void winograd_transform(const WinogradShape& shape, const float* pictures, bool is_gradient, const WinogradChunk& chunk,
                        int64_t first_tile, int64_t last_tile, float* transformed) {
  if (shape.lanes == kWide)
    transform_of<kWide>(shape, pictures, is_gradient, chunk, first_tile, last_tile, transformed);
  else
    transform_of<kNarrow>(shape, pictures, is_gradient, chunk, first_tile, last_tile, transformed);
}

LOCKSTEP_VECTOR_CLONES
void winograd_add_products(const WinogradShape& shape, const float* inputs, const float* gradients, int64_t num_tiles,
                           int64_t frequency, int64_t panel, float* sums) {
  if (shape.lanes == kWide)
    add_products_of<kWide>(shape, inputs, gradients, num_tiles, frequency, panel, sums);
  else
    add_products_of<kNarrow>(shape, inputs, gradients, num_tiles, frequency, panel, sums);
}

LOCKSTEP_VECTOR_CLONES
void winograd_filter_gradient(const WinogradShape& shape, const float* sums, int64_t first_panel, int64_t last_panel,
                              float* gradient) {
  if (shape.lanes == kWide)
    filter_gradient_of<kWide>(shape, sums, first_panel, last_panel, gradient);
  else
    filter_gradient_of<kNarrow>(shape, sums, first_panel, last_panel, gradient);
}

}  // namespace lockstep::nn
