// Sums over columns, biases and activations, run on the processor, against loops in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "kernels/kernel_numbers.h"

namespace lockstep::tests::cuda {
namespace {

struct Layout {
  size_t rows, width;
  unsigned block_x, block_y, num_parts;
  unsigned stripes() const { return (static_cast<unsigned>(width / 8) + block_x - 1) / block_x; }
  Grid grid() const {
    return {.blocks = {stripes(), num_parts},
            .threads = {block_x, block_y},
            .shared = kernels::of_rows,
            .num_shared = 8 * size_t{block_x}};
  }
};

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const size_t width : {8, 40, 768, 1288}) {
    for (const size_t rows : {1, 3, 64, 130}) {
      if (rows * width > 130 * 768) continue;
      all.push_back({rows, width, 32, 8, 1});
      all.push_back({rows, width, 32, 8, 3});  // the last parts have no rows, where there are few
    }
    all.push_back({20, width, 32, 1, 5});
  }
  all.push_back({64, 512, 64, 4, 1});
  all.push_back({64, 40, 32, 8, 20});  // more parts than a block has rows
  return all;
}

/// What kernels that sum columns need beside the matrix, with counters that are zero before and must be after.
template <typename Sum> struct Summing {
  explicit Summing(const Layout& layout)
      : parts("parts", layout.num_parts > 1 ? layout.num_parts * layout.width : 0), sums("sums", layout.width),
        counters("counters", layout.stripes()) {
    for (unsigned& counter : counters) counter = 0;
  }
  /// Launches of other numbers of this type may come before: nothing that they left may help.
  void forget() {
    for (float& part : parts) part = std::numeric_limits<float>::quiet_NaN();
    for (Sum& sum : sums) sum = narrow<Sum>(NAN);
  }
  void expect_counters() const {
    for (size_t i = 0; i < counters.size(); ++i) ASSERT_EQ(counters[i], 0u) << "counter " << i;
  }
  void expect_sums(const Layout& layout, const std::vector<double>& values) const {
    std::vector<double> want(layout.width), of_absolutes(layout.width);
    for (size_t i = 0; i < values.size(); ++i) {
      want[i % layout.width] += values[i];
      of_absolutes[i % layout.width] += std::fabs(values[i]);
    }
    for (size_t i = 0; i < want.size(); ++i) {
      const double most_off = 1.01 * kRounding<Sum> * std::fabs(want[i]) + kSumming * of_absolutes[i];
      ASSERT_LE(std::fabs(wide(sums[i]) - want[i]), most_off) << "sum at " << i << ": " << wide(sums[i]);
    }
  }

  Buffer<float> parts;
  Buffer<Sum> sums;
  Buffer<unsigned> counters;
};

template <typename T, typename Sum>
void sum_columns(const Layout& layout, const Buffer<T>& x, Summing<Sum>& to, uint64_t seed) {
  to.forget();
  launch(layout.grid(), seed, [&] {
    kernels::column_sums<T, Sum>(static_cast<long>(layout.rows), static_cast<int>(layout.width), x.data(),
                                 to.parts.data(), to.sums.data(), to.counters.data());
  });
}

template <typename T, typename Sum> void check_column_sums(const Layout& layout) {
  KERNEL_CASE(layout.rows, layout.width, layout.block_x, layout.block_y, layout.num_parts);
  Buffer<T> x("x", layout.rows * layout.width);
  draw(x, 1, 0.5);
  Summing<Sum> to(layout);
  sum_columns(layout, x, to, 1);
  to.expect_sums(layout, wide_values(x));
  to.expect_counters();
  const std::vector<Sum> before(to.sums.begin(), to.sums.end());
  for (uint64_t seed = 2; seed < (layout.num_parts > 1 ? 5u : 3u); ++seed) {
    sum_columns(layout, x, to, seed);
    for (size_t i = 0; i < before.size(); ++i)
      ASSERT_TRUE(has_same_bits(to.sums[i], before[i])) << "order matters at " << i;
    to.expect_counters();
  }
}

TEST(ColumnKernels, SumsOfFloats) {
  for (const Layout& layout : layouts()) check_column_sums<float, float>(layout);
}
TEST(ColumnKernels, SumsOfNarrowNumbersOfTheirType) {
  for (const Layout& layout : {Layout{130, 40, 32, 8, 3}, Layout{64, 768, 32, 8, 2}, Layout{64, 8, 32, 8, 1}}) {
    check_column_sums<BFloat16, BFloat16>(layout);
    check_column_sums<Half, Half>(layout);
    check_column_sums<float, BFloat16>(layout);
    check_column_sums<BFloat16, float>(layout);
  }
}

/// Else the last block, which on a GPU runs beside the others, adds up parts that are not there yet.
TEST(ColumnKernels, PartsAreThereBeforeTheirCounterRises) {
  const Layout layout{64, 1288, 32, 8, 3};
  Buffer<float> x("x", layout.rows * layout.width);
  draw(x, 1);
  Summing<float> to(layout);
  size_t num_added = 0, num_missing = 0;
  Grid grid = layout.grid();
  grid.before_atomic_add = [&] {
    ++num_added;
    const size_t begin = size_t{blockIdx.x} * 8 * layout.block_x;
    for (size_t column = begin; column < std::min(layout.width, begin + 8 * layout.block_x); ++column)
      num_missing += std::isnan(to.parts[blockIdx.y * layout.width + column]);
  };
  for (uint64_t seed = 1; seed < 4; ++seed) {
    to.forget();
    launch(grid, seed, [&] {
      kernels::column_sums<float, float>(64, 1288, x.data(), to.parts.data(), to.sums.data(), to.counters.data());
    });
  }
  EXPECT_EQ(num_added, 3u * layout.stripes() * layout.num_parts);
  EXPECT_EQ(num_missing, 0u);
}

TEST(ColumnKernels, NanAndInfinitySpoilTheirColumnAlone) {
  for (const unsigned num_parts : {1u, 2u}) {
    const Layout layout{20, 96, 32, 8, num_parts};
    Buffer<float> x("x", layout.rows * layout.width);
    for (float& value : x) value = 1;
    x[13 * layout.width + 5] = std::numeric_limits<float>::quiet_NaN();
    x[4 * layout.width + 90] = -std::numeric_limits<float>::infinity();
    Summing<float> to(layout);
    sum_columns(layout, x, to, 1);
    for (size_t i = 0; i < to.sums.size(); ++i) {
      ASSERT_EQ(std::isnan(to.sums[i]), i == 5) << i;
      const float want = i == 90 ? -std::numeric_limits<float>::infinity() : 20.0f;
      ASSERT_TRUE(i == 5 || to.sums[i] == want) << i << ": " << to.sums[i];
    }
  }
}

double gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
double gelu_tanh(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double quick_gelu(double x) { return x / (1 + std::exp(-1.702 * x)); }

double numeric_slope(const std::function<double(double)>& function, double x) {
  constexpr double kStep = 1e-4;  // of fourth order: errors of 1e-12
  return (8 * (function(x + kStep) - function(x - kStep)) - (function(x + 2 * kStep) - function(x - 2 * kStep))) /
         (12 * kStep);
}

template <int kActivation> void check_slope(const std::function<double(double)>& function) {
  for (int i = -4000; i <= 4000; ++i) {
    const float x = static_cast<float>(i) / 200;
    const double want = numeric_slope(function, static_cast<double>(x));
    ASSERT_NEAR(static_cast<double>(kernels::activation_slope<kActivation>(x)), want, 2e-6) << x;
  }
  for (const float x : {50.0f, 1e4f}) {
    EXPECT_EQ(kernels::activation_slope<kActivation>(x), 1.0f) << x;
    EXPECT_NEAR(static_cast<double>(kernels::activation_slope<kActivation>(-x)), 0, 1e-30) << x;
  }
  EXPECT_TRUE(std::isnan(kernels::activation_slope<kActivation>(std::numeric_limits<float>::quiet_NaN())));
}

TEST(ColumnKernels, SlopesOfActivations) {
  check_slope<kernels::kGelu>(gelu);
  check_slope<kernels::kGeluTanh>(gelu_tanh);
  check_slope<kernels::kQuickGelu>(quick_gelu);
}

template <typename T, typename G> struct Biased {
  Biased(size_t rows, size_t the_width)
      : width(the_width), x("x", rows * width), dy("dy", rows * width), y("y", rows * width), dx("dx", rows * width),
        bias("bias", width) {}
  void draw_all() {
    draw(x, 2, 0, 2);
    draw(dy, 1);
    draw(bias, 3, 0.2);
  }
  /// What an activation is taken of: the bias is rounded to T first, as if it had been cast.
  double in(size_t i) const { return wide(x[i]) + wide(narrow<T>(wide(bias[i % width]))); }
  template <int kActivation> void forward(unsigned blocks, unsigned threads) {
    launch({.blocks = {blocks}, .threads = {threads}}, 1, [&] {
      kernels::bias_activation<T, G, kActivation>(static_cast<long>(x.size()), static_cast<int>(width), x.data(),
                                                  bias.data(), y.data());
    });
  }
  template <int kActivation> void backward(const Layout& layout, Summing<G>& to, uint64_t seed) {
    to.forget();
    launch(layout.grid(), seed, [&] {
      kernels::bias_activation_backward<T, G, kActivation>(static_cast<long>(layout.rows), static_cast<int>(width),
                                                           dy.data(), x.data(), bias.data(), dx.data(), to.parts.data(),
                                                           to.sums.data(), to.counters.data());
    });
  }

  size_t width;
  Buffer<T> x, dy, y, dx;
  Buffer<G> bias;
};

template <typename T, typename G, int kActivation>
void check_bias_activation(const std::function<double(double)>& function) {
  for (const size_t rows : {1, 21}) {
    for (const size_t width : {8, 104, 768}) {
      KERNEL_CASE(rows, width, kActivation);
      Biased<T, G> biased(rows, width);
      biased.draw_all();
      biased.template forward<kActivation>(2, 64);  // up to 2016 groups of columns: turns of which the last is not full
      std::vector<double> want;
      for (size_t i = 0; i < rows * width; ++i) want.push_back(function(biased.in(i)));
      expect_close("y", biased.y, want, 3e-6 * largest(want));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

template <typename T, typename G, int kActivation>
void check_bias_backward(const Layout& layout, const std::function<double(double)>& function) {
  KERNEL_CASE(layout.rows, layout.width, layout.block_x, layout.block_y, layout.num_parts, kActivation);
  Biased<T, G> biased(layout.rows, layout.width);
  biased.draw_all();
  Summing<G> to(layout);
  biased.template backward<kActivation>(layout, to, 3);
  std::vector<double> want;
  for (size_t i = 0; i < biased.x.size(); ++i)
    want.push_back(wide(biased.dy[i]) * numeric_slope(function, biased.in(i)));
  expect_close("dx", biased.dx, want, 3e-6 * largest(want));
  to.expect_sums(layout, wide_values(biased.dx));  // of what was written, thus of rounded numbers
  to.expect_counters();
  const std::vector<G> before(to.sums.begin(), to.sums.end());
  biased.template backward<kActivation>(layout, to, 4);
  for (size_t i = 0; i < before.size(); ++i)
    ASSERT_TRUE(has_same_bits(to.sums[i], before[i])) << "order matters at " << i;
  to.expect_counters();
}

template <typename T, typename G> void check_activations() {
  check_bias_activation<T, G, kernels::kGelu>(gelu);
  check_bias_activation<T, G, kernels::kGeluTanh>(gelu_tanh);
  check_bias_activation<T, G, kernels::kQuickGelu>(quick_gelu);
  for (const Layout& layout : {Layout{3, 8, 32, 8, 1}, Layout{130, 40, 32, 8, 3}, Layout{21, 768, 32, 8, 2}}) {
    check_bias_backward<T, G, kernels::kGelu>(layout, gelu);
    check_bias_backward<T, G, kernels::kGeluTanh>(layout, gelu_tanh);
    check_bias_backward<T, G, kernels::kQuickGelu>(layout, quick_gelu);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(ColumnKernels, ActivationsOfFloats) { check_activations<float, float>(); }
TEST(ColumnKernels, ActivationsOfBFloat16) { check_activations<BFloat16, BFloat16>(); }
TEST(ColumnKernels, ActivationsOfBFloat16WithFloatBias) { check_activations<BFloat16, float>(); }
TEST(ColumnKernels, ActivationsOfHalves) { check_activations<Half, Half>(); }
TEST(ColumnKernels, ActivationsOfHalvesWithFloatBias) { check_activations<Half, float>(); }

TEST(ColumnKernels, FloatBiasIsRoundedBeforeItIsAdded) {
  const Layout layout{8, 8, 32, 8, 1};
  Biased<BFloat16, float> biased(8, 8);
  for (BFloat16& value : biased.x) value = narrow<BFloat16>(-256);
  for (BFloat16& value : biased.dy) value = narrow<BFloat16>(1);
  for (float& value : biased.bias) value = 256.9f;  // in bfloat16 256: nothing is left
  biased.forward<kernels::kGelu>(1, 32);
  Summing<float> to(layout);
  biased.backward<kernels::kGelu>(layout, to, 1);
  for (const BFloat16& value : biased.y) EXPECT_EQ(wide(value), 0);
  for (const BFloat16& value : biased.dx) EXPECT_EQ(wide(value), 0.5);
}

TEST(ColumnKernels, SumsOfABiasAreThoseOfRoundedGradients) {
  const Layout layout{64, 8, 32, 8, 1};
  Biased<BFloat16, float> biased(64, 8);
  for (BFloat16& value : biased.x) value = narrow<BFloat16>(0.625);
  for (BFloat16& value : biased.dy) value = narrow<BFloat16>(1);
  for (float& value : biased.bias) value = 0;
  Summing<float> to(layout);
  biased.backward<kernels::kGelu>(layout, to, 1);
  const double dx = wide(biased.dx[0]), exact = numeric_slope(gelu, 0.625);
  ASSERT_GT(std::fabs(dx - exact), 1e-4) << "rounding must matter";
  for (const float sum : to.sums) EXPECT_EQ(static_cast<double>(sum), 64 * dx);
}

TEST(ColumnKernels, NanOfAnActivationStaysAtItsPlace) {
  const Layout layout{20, 40, 32, 8, 2};
  Biased<BFloat16, BFloat16> biased(20, 40);
  for (size_t i = 0; i < 800; ++i) biased.dy[i] = biased.x[i] = narrow<BFloat16>(1);
  for (BFloat16& value : biased.bias) value = narrow<BFloat16>(0);
  biased.x[3 * 40 + 7] = narrow<BFloat16>(NAN);
  biased.dy[9 * 40 + 33] = narrow<BFloat16>(NAN);
  Summing<BFloat16> to(layout);
  biased.forward<kernels::kGelu>(1, 64);
  biased.backward<kernels::kGelu>(layout, to, 1);
  for (size_t i = 0; i < 800; ++i) {
    ASSERT_EQ(std::isnan(wide(biased.y[i])), i == 3 * 40 + 7) << i;
    ASSERT_EQ(std::isnan(wide(biased.dx[i])), i == 3 * 40 + 7 || i == 9 * 40 + 33) << i;
  }
  for (size_t i = 0; i < 40; ++i) ASSERT_EQ(std::isnan(wide(to.sums[i])), i == 7 || i == 33) << i;
}

}  // namespace
}  // namespace lockstep::tests::cuda
