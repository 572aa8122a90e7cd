// Dropout of the GPU, run on the processor, against the kernel of the CPU: the same bits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/kernel_numbers.h"
#include "nn/dropout_kernel.h"

namespace lockstep::tests::cuda {
namespace {

template <typename T>
using OfCpu = std::conditional_t<std::is_same_v<T, float>, float,
                                 std::conditional_t<std::is_same_v<T, Half>, nn::HalfBits, nn::Bfloat16Bits>>;

constexpr uint64_t kKey = ~uint64_t{0} - 77;  // row numbers wrap around beyond it
constexpr int64_t kKept = 11744051;           // of 2^24: 0.7
constexpr float kFactor = 1 / 0.7f;

template <typename T> struct Dropped {
  Dropped(size_t the_rows, size_t the_width, bool has_rows)
      : rows(the_rows), width(the_width), numbers("rows", has_rows ? rows : 0), x("x", rows * width),
        y("y", rows * width) {
    // Neighbours are far apart, and there are negative numbers.
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<long>(i * uint64_t{0x9e3779b97f4a7c15} + 7);
    numbers.sealed();
    draw(x, 3, 0, 2);
  }
  const long* own_numbers() const { return numbers.size() > 0 ? numbers.data() : nullptr; }
  kernels::Draws draws() const { return {own_numbers(), kKey, static_cast<unsigned>(kKept), kFactor}; }
  void run(unsigned blocks, unsigned threads, bool is_whole) {
    launch({.blocks = {blocks}, .threads = {threads}}, 1, [&] {
      const long count = static_cast<long>(x.size());
      const int columns = static_cast<int>(width);
      if (is_whole)
        kernels::dropout<T, true>(count, columns, draws(), x.data(), y.data());
      else
        kernels::dropout<T, false>(count, columns, draws(), x.data(), y.data());
    });
  }
  std::vector<T> of_cpu() const {
    const std::vector<int64_t> same_numbers(numbers.begin(), numbers.end());
    const nn::NumberedDraws drawn{.rows = same_numbers.empty() ? nullptr : same_numbers.data(),
                                  .columns = static_cast<int64_t>(width),
                                  .key = kKey,
                                  .kept_of_2_24 = kKept};
    std::vector<OfCpu<T>> from(x.size()), to(x.size());
    std::memcpy(static_cast<void*>(from.data()), x.data(), x.size() * sizeof(T));
    nn::drop_rows(drawn, 0, static_cast<int64_t>(rows), kFactor, from.data(), to.data());
    std::vector<T> result(x.size());
    std::memcpy(static_cast<void*>(result.data()), to.data(), x.size() * sizeof(T));
    return result;
  }
  void expect_bits_of_cpu() const {
    const std::vector<T> want = of_cpu();
    size_t num_kept = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_TRUE(has_same_bits(y[i], want[i])) << i << ": " << wide(y[i]) << ", expected " << wide(want[i]);
      num_kept += wide(y[i]) != 0;
    }
    if (want.size() < 500) return;
    const auto count = static_cast<double>(want.size());
    ASSERT_NEAR(static_cast<double>(num_kept) / count, 0.7, 4 * std::sqrt(0.21 / count)) << "four deviations";
  }

  size_t rows, width;
  Buffer<long> numbers;
  Buffer<T> x, y;
};

template <typename T> void check_dropout() {
  for (const bool has_rows : {true, false})
    for (const size_t rows : {1, 3, 21})
      for (const size_t width : {1, 5, 8, 9, 104, 767, 768, 4104}) {
        KERNEL_CASE(has_rows, rows, width);
        Dropped<T> dropped(rows, width, has_rows);
        dropped.run(2, 64, false);  // turns of which the last is not full
        dropped.expect_bits_of_cpu();
        if (width % 8 == 0) {
          Dropped<T> whole(rows, width, has_rows);
          whole.run(2, 64, true);
          whole.expect_bits_of_cpu();
        }
        if (testing::Test::HasFatalFailure()) return;
      }
}

TEST(DropoutKernels, Floats) { check_dropout<float>(); }
TEST(DropoutKernels, BFloat16) { check_dropout<BFloat16>(); }
TEST(DropoutKernels, Halves) { check_dropout<Half>(); }

/// A gradient that is no number must reach the loss scale.
TEST(DropoutKernels, NanStaysNanAndZerosKeepTheSign) {
  Dropped<float> dropped(4, 64, true);
  Buffer<float> x("x", 256);
  for (size_t i = 0; i < 256; ++i) x[i] = i % 2 == 0 ? NAN : -1.0f;
  x.sealed();
  size_t num_dropped = 0;
  for (const bool is_whole : {true, false}) {
    launch({.blocks = {1}, .threads = {32}}, 1, [&] {
      if (is_whole)
        kernels::dropout<float, true>(256, 64, dropped.draws(), x.data(), dropped.y.data());
      else
        kernels::dropout<float, false>(256, 64, dropped.draws(), x.data(), dropped.y.data());
    });
    for (size_t i = 0; i < 256; ++i) {
      ASSERT_EQ(std::isnan(dropped.y[i]), i % 2 == 0) << i;
      if (i % 2 == 0) continue;
      ASSERT_TRUE(std::signbit(dropped.y[i])) << i;
      num_dropped += dropped.y[i] == 0;
    }
  }
  EXPECT_GT(num_dropped, 20u);
}

TEST(DropoutKernels, AllAndNothingAreKept) {
  Dropped<BFloat16> dropped(3, 40, false);
  for (const unsigned kept : {0u, 1u << 24}) {
    launch({.blocks = {1}, .threads = {32}}, 1, [&] {
      kernels::dropout<BFloat16, true>(120, 40, {nullptr, 5, kept, 1}, dropped.x.data(), dropped.y.data());
    });
    for (size_t i = 0; i < 120; ++i) ASSERT_EQ(wide(dropped.y[i]), kept > 0 ? wide(dropped.x[i]) : 0) << i;
  }
}

}  // namespace
}  // namespace lockstep::tests::cuda
