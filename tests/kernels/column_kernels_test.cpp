// Sums over columns and gradients through activations, run on the processor, against loops in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "kernels/kernel_numbers.h"

namespace lockstep::tests::cuda {
namespace {

struct Layout {
  size_t rows, width;
  unsigned block_x, block_y, groups;
  Grid grid() const {
    const auto threads = static_cast<unsigned>(width / 8);
    return {.blocks = {(threads + block_x - 1) / block_x, groups},
            .threads = {block_x, block_y},
            .shared = kernels::of_rows,
            .num_shared = 8 * size_t{block_x}};
  }
  /// The row of the sums that a row of the matrix goes to.
  size_t group_of(size_t row) const { return row / block_y % groups; }
};

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const size_t width : {8, 40, 96, 512, 768, 1280, 2048, 4096}) {
    for (const size_t rows : {1, 3, 64, 130}) {
      all.push_back({rows, width, 32, 8, 3});  // the last group of three rows has none, where there are few
      if (width >= 512) all.push_back({rows, width, 64, 4, 1});
    }
    all.push_back({64, width, 32, 1, 5});
  }
  return all;
}

struct Sums {
  std::vector<double> of, of_absolutes;  // [groups, width]
};

Sums sums_of(const Layout& layout, const std::vector<double>& values) {
  Sums sums{std::vector<double>(layout.groups * layout.width), std::vector<double>(layout.groups * layout.width)};
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t place = layout.group_of(i / layout.width) * layout.width + i % layout.width;
    sums.of[place] += values[i];
    sums.of_absolutes[place] += std::fabs(values[i]);
  }
  return sums;
}

template <typename Sum> void expect_sums(const Buffer<Sum>& got, const Sums& want) {
  for (size_t i = 0; i < got.size(); ++i) {
    const double most_off = 1.01 * kRounding<Sum> * std::fabs(want.of[i]) + kSumming * want.of_absolutes[i];
    ASSERT_LE(std::fabs(wide(got[i]) - want.of[i]), most_off) << "sum at " << i << ": " << wide(got[i]);
  }
}

template <typename T, typename Sum> void check_column_sums(const Layout& layout) {
  KERNEL_CASE(layout.rows, layout.width, layout.block_x, layout.block_y, layout.groups);
  Buffer<T> x("x", layout.rows * layout.width);
  Buffer<Sum> sums("sums", layout.groups * layout.width);
  draw(x, 1, 0.5);
  const auto run = [&](uint64_t seed) {
    launch(layout.grid(), seed, [&] {
      kernels::column_sums<T, Sum>(static_cast<long>(layout.rows), static_cast<int>(layout.width), x.data(),
                                   sums.data());
    });
  };
  run(1);
  expect_sums(sums, sums_of(layout, wide_values(x)));
  const std::vector<Sum> before(sums.begin(), sums.end());
  run(2);
  for (size_t i = 0; i < before.size(); ++i) ASSERT_TRUE(has_same_bits(sums[i], before[i])) << "order matters at " << i;
}

TEST(ColumnKernels, SumsOfFloats) {
  for (const Layout& layout : layouts()) check_column_sums<float, float>(layout);
}
TEST(ColumnKernels, SumsOfBFloat16) {
  for (const Layout& layout : layouts()) check_column_sums<BFloat16, float>(layout);
}
TEST(ColumnKernels, SumsOfHalves) {
  for (const Layout& layout : layouts()) check_column_sums<Half, float>(layout);
}
TEST(ColumnKernels, SumsRoundedToTheirOwnType) {
  for (const size_t width : {8, 768}) {
    check_column_sums<BFloat16, BFloat16>({130, width, 32, 8, 1});
    check_column_sums<Half, Half>({130, width, 32, 8, 1});
    check_column_sums<float, BFloat16>({130, width, 32, 8, 1});
  }
}

TEST(ColumnKernels, NanAndInfinitySpoilTheirColumnAlone) {
  const Layout layout{20, 96, 32, 8, 1};
  Buffer<float> x("x", layout.rows * layout.width), sums("sums", layout.width);
  for (float& value : x) value = 1;
  x[13 * layout.width + 5] = std::numeric_limits<float>::quiet_NaN();
  x[4 * layout.width + 90] = -std::numeric_limits<float>::infinity();
  launch(layout.grid(), 1, [&] { kernels::column_sums<float, float>(20, 96, x.data(), sums.data()); });
  for (size_t i = 0; i < sums.size(); ++i) {
    ASSERT_EQ(std::isnan(sums[i]), i == 5) << i;
    const float want = i == 90 ? -std::numeric_limits<float>::infinity() : 20.0f;
    ASSERT_TRUE(i == 5 || sums[i] == want) << i << ": " << sums[i];
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

template <typename T, int kActivation>
void check_activation(const Layout& layout, const std::function<double(double)>& function) {
  KERNEL_CASE(layout.rows, layout.width, layout.block_x, layout.block_y, layout.groups);
  const size_t count = layout.rows * layout.width;
  Buffer<T> dy("dy", count), x("x", count), dx("dx", count);
  Buffer<float> sums("sums", layout.groups * layout.width);
  draw(dy, 1);
  draw(x, 2, 0, 2);
  launch(layout.grid(), 3, [&] {
    kernels::activation_backward<T, kActivation>(static_cast<long>(layout.rows), static_cast<int>(layout.width),
                                                 dy.data(), x.data(), dx.data(), sums.data());
  });
  std::vector<double> want;
  for (size_t i = 0; i < count; ++i) want.push_back(wide(dy[i]) * numeric_slope(function, wide(x[i])));
  expect_close("dx", dx, want, 3e-6 * largest(want));
  expect_sums(sums, sums_of(layout, wide_values(dx)));  // of what was written, thus of rounded numbers
}

template <typename T> void check_activations() {
  for (const Layout& layout : layouts()) {
    if (layout.rows * layout.width > 130 * 1280) continue;  // the loops of the test take their time
    check_activation<T, kernels::kGelu>(layout, gelu);
    check_activation<T, kernels::kGeluTanh>(layout, gelu_tanh);
    check_activation<T, kernels::kQuickGelu>(layout, quick_gelu);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(ColumnKernels, ActivationsOfFloats) { check_activations<float>(); }
TEST(ColumnKernels, ActivationsOfBFloat16) { check_activations<BFloat16>(); }
TEST(ColumnKernels, ActivationsOfHalves) { check_activations<Half>(); }

TEST(ColumnKernels, NanOfAnActivationStaysAtItsPlace) {
  const Layout layout{20, 40, 32, 8, 1};
  Buffer<BFloat16> dy("dy", 800), x("x", 800), dx("dx", 800);
  Buffer<float> sums("sums", 40);
  for (size_t i = 0; i < 800; ++i) dy[i] = x[i] = narrow<BFloat16>(1);
  x[3 * 40 + 7] = narrow<BFloat16>(NAN);
  dy[9 * 40 + 33] = narrow<BFloat16>(NAN);
  launch(layout.grid(), 1, [&] {
    kernels::activation_backward<BFloat16, kernels::kGelu>(20, 40, dy.data(), x.data(), dx.data(), sums.data());
  });
  for (size_t i = 0; i < 800; ++i) ASSERT_EQ(std::isnan(wide(dx[i])), i == 3 * 40 + 7 || i == 9 * 40 + 33) << i;
  for (size_t i = 0; i < 40; ++i) ASSERT_EQ(std::isnan(sums[i]), i == 7 || i == 33) << i;
}

}  // namespace
}  // namespace lockstep::tests::cuda
