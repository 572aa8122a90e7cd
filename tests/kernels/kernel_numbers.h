// Numbers of the types that kernels take, and comparisons with what plain loops in double precision give.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/gpu_kernels_on_cpu.h"

namespace lockstep::tests::cuda {

using kernels::BFloat16;
using kernels::Half;

/// The largest error of rounding to T, relative to the number.
template <typename T> constexpr double kRounding = 0;
template <> inline constexpr double kRounding<float> = 0x1p-24;
template <> inline constexpr double kRounding<Half> = 0x1p-11;
template <> inline constexpr double kRounding<BFloat16> = 0x1p-8;

/// What sums of a few thousand terms in single precision may be off, relative to the sum of their absolute values: 8
/// terms one after another, 32 by halves, and up to 32 partial sums in a row round fewer than 64 times.
inline constexpr double kSumming = 64 * 0x1p-24;

inline double wide(float value) { return value; }
inline double wide(Half value) { return widened_bits(value.bits, kHalfType); }
inline double wide(BFloat16 value) { return widened_bits(value.bits, kBFloat16Type); }

template <typename T> T narrow(double value);
template <> inline float narrow<float>(double value) { return static_cast<float>(value); }
template <> inline Half narrow<Half>(double value) { return {static_cast<uint16_t>(narrow_bits(value, kHalfType))}; }
template <> inline BFloat16 narrow<BFloat16>(double value) {
  return {static_cast<uint16_t>(narrow_bits(value, kBFloat16Type))};
}

template <typename T> std::vector<double> wide_values(const Buffer<T>& buffer) {
  std::vector<double> values;
  for (const T& value : buffer) values.push_back(wide(value));
  return values;
}

/// Normally distributed numbers, of which the kernels may only read.
template <typename T> void draw(Buffer<T>& buffer, uint64_t seed, double middle = 0, double spread = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(middle, spread);
  for (T& value : buffer) value = narrow<T>(normal(random));
  buffer.sealed();
}

template <typename T> bool has_same_bits(const T& a, const T& b) { return std::memcmp(&a, &b, sizeof(T)) == 0; }

/// Each `got` is `want` rounded to T, or as far from that as `slack` says. Names the first place that is not.
template <typename T>
void expect_close(const char* what, const Buffer<T>& got, const std::vector<double>& want, double slack) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < want.size(); ++i) {
    const double value = wide(got[i]);
    if (std::isnan(want[i]) && std::isnan(value)) continue;
    ASSERT_LE(std::fabs(value - want[i]), 1.01 * kRounding<T> * std::fabs(want[i]) + slack)
        << what << " at " << i << " is " << value << ", expected " << want[i];
  }
}

inline double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::fmax(most, std::fabs(value));
  return most;
}

/// For loops over rows, widths: what a failure is about.
#define KERNEL_CASE(...) SCOPED_TRACE(testing::PrintToString(std::make_tuple(__VA_ARGS__)))

}  // namespace lockstep::tests::cuda
