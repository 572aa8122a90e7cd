// The parts of a softmax over rows, run on the processor, against loops in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/kernel_numbers.h"

namespace lockstep::tests::cuda {
namespace {

constexpr double kEndless = std::numeric_limits<double>::infinity();

struct LogitShape {
  size_t rows, width, used;
};

/// One turn of a block is 4096 columns: less than one, one, more, several; each with columns that do not count.
std::vector<LogitShape> logit_shapes() {
  return {{1, 8, 1},       {1, 8, 8},       {3, 16, 9},      {2, 1000, 1000}, {2, 1000, 993},  {2, 4096, 4096},
          {1, 4104, 4097}, {1, 4104, 4096}, {2, 4104, 2000}, {2, 8296, 8290}, {1, 8296, 4000}, {2, 64, 0}};
}

/// Columns that do not count are NaN or larger than all others, so that nobody reads them without a trace.
template <typename T> struct Logits {
  explicit Logits(const LogitShape& the_shape)
      : shape(the_shape), values("logits", shape.rows * shape.width), targets("targets", shape.rows),
        stats("stats", 3 * shape.rows), tops("tops", shape.rows), factors("factors", shape.rows),
        weights("weights", shape.rows) {
    std::mt19937_64 random(shape.width + shape.used);
    std::normal_distribution<double> normal(-1, 4);
    for (size_t row = 0; row < shape.rows; ++row) {
      for (size_t i = 0; i < shape.width; ++i)
        at(row, i) = narrow<T>(i < shape.used ? normal(random) : i % 2 == 0 ? 3e4 : NAN);
      targets[row] = static_cast<long>(shape.used / (row + 1)) - 1;
      tops[row] = 5 + static_cast<float>(row);
      factors[row] = 0.25f * static_cast<float>(row + 1);
      weights[row] = 0.75f - 0.125f * static_cast<float>(row);
    }
  }
  T& at(size_t row, size_t column) { return values[row * shape.width + column]; }
  std::vector<double> counted(size_t row) const {
    std::vector<double> all;
    for (size_t i = 0; i < shape.used; ++i) all.push_back(wide(values[row * shape.width + i]));
    return all;
  }
  bool has_target(size_t row) const { return targets[row] >= 0 && targets[row] < static_cast<long>(shape.used); }
  Grid grid() const { return {.blocks = {static_cast<unsigned>(shape.rows)}, .threads = {512}}; }
  void run_stats(uint64_t seed = 1) {
    launch(grid(), seed, [&] {
      kernels::softmax_stats<T>(static_cast<long>(shape.rows), static_cast<int>(shape.width),
                                static_cast<int>(shape.used), values.data(), targets.data(), stats.data());
    });
  }
  void run_gradient(uint64_t seed = 1) {
    launch(grid(), seed, [&] {
      kernels::softmax_gradient<T>(static_cast<int>(shape.width), static_cast<int>(shape.used), values.data(),
                                   targets.data(), tops.data(), factors.data(), weights.data());
    });
  }
  double top(size_t row) const { return static_cast<double>(stats[row]); }
  double sum(size_t row) const { return static_cast<double>(stats[shape.rows + row]); }
  double of_target(size_t row) const { return static_cast<double>(stats[2 * shape.rows + row]); }

  LogitShape shape;
  Buffer<T> values;
  Buffer<long> targets;
  Buffer<float> stats, tops, factors, weights;
};

/// The largest logit and the sum of exp(logit - that); 0 where there is none but -inf.
template <typename T> void expect_stats(const Logits<T>& logits) {
  for (size_t row = 0; row < logits.shape.rows; ++row) {
    double top = -kEndless, sum = 0;
    const std::vector<double> counted = logits.counted(row);
    for (const double value : counted) top = std::fmax(top, value);
    for (const double value : counted) sum += value == -kEndless ? 0 : std::exp(value - top);
    EXPECT_EQ(logits.top(row), top) << row;
    // Exponents of up to 40 are rounded in single precision.
    EXPECT_LE(std::fabs(logits.sum(row) - sum), 1e-5 * sum) << row << ": " << logits.sum(row) << ", expected " << sum;
    const double target = logits.has_target(row) ? counted[static_cast<size_t>(logits.targets[row])] : 0;
    EXPECT_EQ(logits.of_target(row), target) << row;
  }
}

template <typename T> void check_stats() {
  for (const LogitShape& shape : logit_shapes()) {
    KERNEL_CASE(shape.rows, shape.width, shape.used);
    Logits<T> logits(shape);
    logits.values.sealed();
    logits.run_stats();
    expect_stats(logits);
  }
}

TEST(SoftmaxKernels, StatsOfFloats) { check_stats<float>(); }
TEST(SoftmaxKernels, StatsOfBFloat16) { check_stats<BFloat16>(); }
TEST(SoftmaxKernels, StatsOfHalves) { check_stats<Half>(); }

TEST(SoftmaxKernels, LargestLogitMayBeAnywhereAndFarFromTheRest) {
  for (const size_t place :
       {size_t{0}, size_t{7}, size_t{255}, size_t{256}, size_t{4095}, size_t{4096}, size_t{8289}}) {
    KERNEL_CASE(place);
    Logits<float> logits({1, 8296, 8290});
    logits.at(0, place) = 3e4f;
    logits.run_stats();
    EXPECT_EQ(logits.top(0), 3e4);
    EXPECT_EQ(logits.sum(0), 1);
  }
  for (const bool rises : {false, true}) {  // each turn has a larger one than all before it, or none
    Logits<float> logits({1, 8296, 8290});
    for (size_t i = 0; i < 8290; ++i) logits.at(0, i) = (rises ? 0.01f : -0.01f) * static_cast<float>(i);
    logits.run_stats();
    expect_stats(logits);
  }
}

TEST(SoftmaxKernels, TargetsThatAreNoColumnGiveNothing) {
  constexpr size_t kUsed = 93;
  const std::vector<long> targets = {-1, -100, 93, 95, 104, 1L << 40, (1L << 32) + 3, 0, 92};
  Logits<float> logits({targets.size(), 104, kUsed});
  std::copy(targets.begin(), targets.end(), logits.targets.begin());
  logits.run_stats();
  expect_stats(logits);
  for (size_t row = 0; row < 7; ++row) EXPECT_EQ(logits.of_target(row), 0) << targets[row];
}

TEST(SoftmaxKernels, RowsOfNothingButMinusInfinityHaveNoSum) {
  for (const size_t used : {1, 8, 93, 4100}) {
    KERNEL_CASE(used);
    Logits<BFloat16> logits({2, (used + 7) / 8 * 8, used});
    for (size_t i = 0; i < used; ++i) logits.at(1, i) = narrow<BFloat16>(-kEndless);
    logits.run_stats();
    expect_stats(logits);  // of the row beside it, too
    EXPECT_EQ(logits.top(1), -kEndless);
    EXPECT_EQ(logits.sum(1), 0);
  }
}

TEST(SoftmaxKernels, MinusInfinityAddsNothing) {
  for (const size_t place : {0, 100, 4090, 4099}) {  // a row with one finite logit
    KERNEL_CASE(place);
    Logits<float> logits({1, 4104, 4100});
    for (size_t i = 0; i < 4100; ++i) logits.at(0, i) = -std::numeric_limits<float>::infinity();
    logits.at(0, place) = -2;
    logits.run_stats();
    EXPECT_EQ(logits.top(0), -2);
    EXPECT_EQ(logits.sum(0), 1);
  }
}

/// Whatever lies beside it, a NaN makes the loss NaN.
TEST(SoftmaxKernels, NanMakesTheSumNan) {
  const auto check = [](size_t used, size_t begin, size_t end, float others) {
    KERNEL_CASE(used, begin, end, others);
    Logits<float> logits({2, (used + 7) / 8 * 8, used});
    logits.targets[0] = logits.targets[1] = -1;
    for (size_t i = 0; i < used; ++i) logits.at(1, i) = i >= begin && i < end ? NAN : others;
    logits.run_stats();
    EXPECT_TRUE(std::isnan(logits.sum(1))) << logits.sum(1);
    EXPECT_FALSE(std::isnan(logits.sum(0))) << "the row beside it";
  };
  for (const float others : {1.0f, -std::numeric_limits<float>::infinity()}) {
    for (const size_t place : {0, 255, 4096, 4099}) check(4100, place, place + 1, others);
    check(1000, 0, 8, others);      // all that a thread sees
    check(1000, 256, 512, others);  // all that a warp sees
    check(1, 0, 1, others);
    check(993, 992, 993, others);  // one of its own in the last group of columns
    check(1000, 0, 1000, others);
  }
}

TEST(SoftmaxKernels, InfinityMakesTheSumNan) {
  Logits<float> logits({1, 1000, 1000});
  logits.at(0, 500) = std::numeric_limits<float>::infinity();
  logits.run_stats();
  EXPECT_EQ(logits.top(0), kEndless);
  EXPECT_TRUE(std::isnan(logits.sum(0)));
}

TEST(SoftmaxKernels, OrderOfThreadsAndBlocksChangesNothing) {
  Logits<BFloat16> logits({3, 8296, 8290});
  logits.run_stats(1);
  const std::vector<float> before(logits.stats.begin(), logits.stats.end());
  for (uint64_t seed = 2; seed < 10; ++seed) {
    for (float& value : logits.stats) value = NAN;
    logits.run_stats(seed);
    for (size_t i = 0; i < before.size(); ++i) ASSERT_TRUE(has_same_bits(logits.stats[i], before[i])) << i;
  }
}

/// What softmax_gradient must make of the logits as they are.
template <typename T> std::vector<double> gradient_of(Logits<T>& logits) {
  std::vector<double> gradient;
  for (size_t row = 0; row < logits.shape.rows; ++row) {
    for (size_t i = 0; i < logits.shape.width; ++i) {
      const double top = static_cast<double>(logits.tops[row]), factor = static_cast<double>(logits.factors[row]);
      const bool is_target = logits.has_target(row) && i == static_cast<size_t>(logits.targets[row]);
      const double less = is_target ? static_cast<double>(logits.weights[row]) : 0;
      gradient.push_back(i < logits.shape.used ? std::exp(wide(logits.at(row, i)) - top) * factor - less : 0);
    }
  }
  return gradient;
}

template <typename T> void expect_gradient(Logits<T>& logits) {
  const std::vector<double> want = gradient_of(logits);
  logits.run_gradient();
  double most = 0;
  for (const double value : want) most = std::isnan(value) ? most : std::fmax(most, std::fabs(value));
  // Half has no numbers below 2^-24 but 0 and what is half of it off.
  expect_close("gradient", logits.values, want, 3e-6 * most + (std::is_same_v<T, Half> ? 0x1p-25 : 0));
}

template <typename T> void check_gradient() {
  for (const LogitShape& shape : logit_shapes()) {
    KERNEL_CASE(shape.rows, shape.width, shape.used);
    Logits<T> logits(shape);
    expect_gradient(logits);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(SoftmaxKernels, GradientOfFloats) { check_gradient<float>(); }
TEST(SoftmaxKernels, GradientOfBFloat16) { check_gradient<BFloat16>(); }
TEST(SoftmaxKernels, GradientOfHalves) { check_gradient<Half>(); }

TEST(SoftmaxKernels, GradientOfTargetsThatAreNoColumn) {
  const std::vector<long> targets = {-1, -100, 93, 95, 104, 1L << 40, (1L << 32) + 3, 0, 92};
  Logits<float> logits({targets.size(), 104, 93});
  std::copy(targets.begin(), targets.end(), logits.targets.begin());
  expect_gradient(logits);
}

TEST(SoftmaxKernels, GradientOfWhatIsNotFinite) {
  Logits<float> logits({3, 104, 93});
  logits.at(0, 5) = NAN;
  logits.at(0, 6) = -std::numeric_limits<float>::infinity();
  logits.tops[1] = -std::numeric_limits<float>::infinity();  // of -inf alone there is no softmax
  for (size_t i = 0; i < 93; ++i) logits.at(1, i) = -std::numeric_limits<float>::infinity();
  logits.tops[2] = std::numeric_limits<float>::lowest();  // what callers make of it
  for (size_t i = 0; i < 93; ++i) logits.at(2, i) = -std::numeric_limits<float>::infinity();
  logits.targets[0] = logits.targets[1] = logits.targets[2] = -1;
  expect_gradient(logits);
  for (size_t i = 0; i < 104; ++i) {
    EXPECT_EQ(std::isnan(logits.at(0, i)), i == 5) << i;
    EXPECT_EQ(std::isnan(logits.at(1, i)), i < 93) << i;
    EXPECT_EQ(logits.at(2, i), 0) << i;
  }
  EXPECT_EQ(logits.at(0, 6), 0);
}

}  // namespace
}  // namespace lockstep::tests::cuda
