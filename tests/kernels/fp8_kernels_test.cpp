// Numbers of 8 bits and largest values, run on the processor, against searches through tables.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/kernel_numbers.h"

namespace lockstep::tests::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

template <int kType> constexpr NarrowType kFormat = kType == kernels::kE4M3 ? kE4M3Type : kE5M2Type;

/// The positive finite numbers of a format, by their bits.
template <int kType> const std::vector<double>& finite_numbers() {
  static const std::vector<double> numbers = [] {
    std::vector<double> all;
    for (uint32_t bits = 0; bits <= kFormat<kType>.most; ++bits) all.push_back(widened_bits(bits, kFormat<kType>));
    return all;
  }();
  return numbers;
}

/// The bits whose number is nearest to `value`, even ones of two; beyond the last one that. Not for NaN.
template <int kType> size_t nearest_bits(float value) {
  const std::vector<double>& numbers = finite_numbers<kType>();
  const double magnitude = std::fmin(std::fabs(static_cast<double>(value)), numbers.back());
  size_t best = 0;
  for (size_t bits = 1; bits < numbers.size(); ++bits) {
    const double distance = std::fabs(numbers[bits] - magnitude), least = std::fabs(numbers[best] - magnitude);
    if (distance < least || (distance == least && bits % 2 == 0)) best = bits;
  }
  return best | (std::signbit(value) ? 0x80 : 0);
}

template <typename T, int kType> struct Quantized {
  Quantized(size_t the_rows, size_t the_width, float the_scale)
      : rows(the_rows), width(the_width), x("x", rows * width), scale("scale", 1), bits("bits", rows * width),
        transposed("transposed", rows * width), amax("amax", 1) {
    scale[0] = the_scale;
    scale.sealed();
    amax[0] = 0;
    std::mt19937_64 random(rows * 1000 + width);
    std::uniform_real_distribution<double> exponents(-20, 12);
    for (T& value : x) {  // from below the smallest numbers of 8 bits to beyond the largest
      const double magnitude = std::exp2(exponents(random));
      value = narrow<T>(random() % 2 ? magnitude : -magnitude);
    }
  }
  void run(bool wants_bits = true, bool wants_transposed = true, bool wants_amax = true, uint64_t seed = 1) {
    const auto tiles = [](size_t count) { return static_cast<unsigned>((count + 63) / 64); };
    launch({.blocks = {tiles(rows), tiles(width)}, .threads = {256}}, seed, [&] {
      kernels::fp8_quantize<T, kType>(
          static_cast<long>(rows), static_cast<int>(width), x.data(), scale.data(), wants_bits ? bits.data() : nullptr,
          wants_transposed ? transposed.data() : nullptr, wants_amax ? amax.data() : nullptr);
    });
  }
  void expect_bits() const {
    for (size_t i = 0; i < x.size(); ++i) {
      const float scaled = static_cast<float>(wide(x[i])) * scale[0];
      if (std::isnan(scaled)) {
        ASSERT_TRUE(std::isnan(widened_bits(bits[i], kFormat<kType>))) << i;
      } else {
        ASSERT_EQ(bits[i], nearest_bits<kType>(scaled)) << i << ": " << scaled;
      }
    }
  }
  void expect_transposed() const {
    for (size_t row = 0; row < rows; ++row) {
      for (size_t column = 0; column < width; ++column)
        ASSERT_EQ(transposed[column * rows + row], bits[row * width + column]) << row << ", " << column;
    }
  }

  size_t rows, width;
  Buffer<T> x;
  Buffer<float> scale;
  Buffer<unsigned char> bits, transposed;
  Buffer<float> amax;
};

struct MatrixShape {
  size_t rows, width;
};
constexpr MatrixShape kShapes[] = {{8, 8}, {64, 64}, {8, 200}, {200, 8}, {72, 136}, {136, 72}, {64, 768}, {128, 40}};

template <typename T, int kType> void check_quantize() {
  for (const MatrixShape& shape : kShapes) {
    for (const float scale : {1.0f, 0.37f, 700.0f}) {
      KERNEL_CASE(shape.rows, shape.width, scale);
      Quantized<T, kType> quantized(shape.rows, shape.width, scale);
      quantized.x.sealed();
      quantized.run();
      quantized.expect_bits();
      quantized.expect_transposed();
      EXPECT_EQ(static_cast<double>(quantized.amax[0]), largest(wide_values(quantized.x)));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Fp8Kernels, FloatsToE4M3) { check_quantize<float, kernels::kE4M3>(); }
TEST(Fp8Kernels, FloatsToE5M2) { check_quantize<float, kernels::kE5M2>(); }
TEST(Fp8Kernels, BFloat16ToE4M3) { check_quantize<BFloat16, kernels::kE4M3>(); }
TEST(Fp8Kernels, BFloat16ToE5M2) { check_quantize<BFloat16, kernels::kE5M2>(); }
TEST(Fp8Kernels, HalvesToE4M3) { check_quantize<Half, kernels::kE4M3>(); }
TEST(Fp8Kernels, HalvesToE5M2) { check_quantize<Half, kernels::kE5M2>(); }

TEST(Fp8Kernels, WhatIsNotWantedMayBeNull) {
  for (int wanted = 0; wanted < 8; ++wanted) {
    KERNEL_CASE(wanted);
    Quantized<BFloat16, kernels::kE4M3> all(72, 136, 1), some(72, 136, 1);
    all.run();
    some.run(wanted & 1, wanted & 2, wanted & 4);
    for (size_t i = 0; i < all.bits.size(); ++i) {
      ASSERT_EQ(some.bits[i], wanted & 1 ? all.bits[i] : 0xff) << i;
      ASSERT_EQ(some.transposed[i], wanted & 2 ? all.transposed[i] : 0xff) << i;
    }
    EXPECT_EQ(some.amax[0], wanted & 4 ? all.amax[0] : 0.0f);
  }
}

TEST(Fp8Kernels, LargestValueIsKeptWhereItIsLarger) {
  Quantized<float, kernels::kE4M3> quantized(72, 136, 2);
  quantized.amax[0] = 1e6f;
  quantized.run();
  EXPECT_EQ(quantized.amax[0], 1e6f);
  quantized.x[72 * 136 - 1] = -2e6f;
  quantized.run();
  EXPECT_EQ(quantized.amax[0], 2e6f);  // of x, not of what is scaled
}

template <int kType> void check_what_is_not_finite() {
  for (const size_t place : {size_t{0}, size_t{70 * 136 + 130}}) {  // of the first block, of the last
    Quantized<float, kType> quantized(72, 136, 1);
    quantized.x[place] = -kInfinity;
    quantized.run();
    quantized.expect_bits();  // the largest finite number
    quantized.expect_transposed();
    EXPECT_EQ(quantized.amax[0], kInfinity);
    quantized.x[place] = std::copysign(kNan, -1.0f);
    quantized.x[place + 1] = kInfinity;
    quantized.run();
    quantized.expect_bits();
    quantized.expect_transposed();
    EXPECT_TRUE(std::isnan(quantized.amax[0]));
    quantized.x[place] = 1;
    quantized.run();
    EXPECT_TRUE(std::isnan(quantized.amax[0])) << "NaN is the largest";
  }
}

TEST(Fp8Kernels, InfinityIsTheLargestNumberAndNanStays) {
  check_what_is_not_finite<kernels::kE4M3>();
  check_what_is_not_finite<kernels::kE5M2>();
}

TEST(Fp8Kernels, OrderOfThreadsAndBlocksChangesNothing) {
  Quantized<BFloat16, kernels::kE5M2> first(136, 200, 3);
  first.run();
  for (uint64_t seed = 2; seed < 8; ++seed) {
    Quantized<BFloat16, kernels::kE5M2> other(136, 200, 3);
    other.run(true, true, true, seed);
    for (size_t i = 0; i < first.bits.size(); ++i) {
      ASSERT_EQ(other.bits[i], first.bits[i]) << i;
      ASSERT_EQ(other.transposed[i], first.transposed[i]) << i;
    }
    EXPECT_EQ(other.amax[0], first.amax[0]);
  }
}

}  // namespace
}  // namespace lockstep::tests::cuda
