// Gated activations, run on the processor, against loops in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/kernel_numbers.h"

namespace lockstep::tests::cuda {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

template <typename T> struct Gated {
  Gated(size_t the_rows, size_t the_width)
      : rows(the_rows), width(the_width), x("x", 2 * rows * width), dy("dy", rows * width), y("y", rows * width),
        dx("dx", 2 * rows * width) {}
  void run(unsigned blocks, unsigned threads) {
    const Grid grid{.blocks = {blocks}, .threads = {threads}};
    launch(grid, 1, [&] { kernels::swiglu<T>(long(rows), int(width), x.data(), y.data()); });
    launch(grid, 2, [&] { kernels::swiglu_backward<T>(long(rows), int(width), dy.data(), x.data(), dx.data()); });
  }
  double gate(size_t row, size_t column) const { return wide(x[2 * row * width + column]); }
  double value(size_t row, size_t column) const { return wide(x[2 * row * width + width + column]); }

  size_t rows, width;
  Buffer<T> x, dy, y, dx;
};

template <typename T> void check_swiglu() {
  for (const size_t rows : {1, 3, 21}) {
    for (const size_t width : {8, 104, 768}) {
      KERNEL_CASE(rows, width);
      Gated<T> gated(rows, width);
      draw(gated.x, 1, 0, 2);
      draw(gated.dy, 2);
      gated.run(2, 64);  // up to 2016 groups of columns: turns of which the last is not full
      std::vector<double> y, dx(2 * rows * width);
      for (size_t row = 0; row < rows; ++row) {
        for (size_t column = 0; column < width; ++column) {
          const double gate = gated.gate(row, column), value = gated.value(row, column), open = sigmoid(gate);
          const double dy = wide(gated.dy[row * width + column]);
          y.push_back(gate * open * value);
          dx[2 * row * width + column] = dy * value * (open + gate * open * (1 - open));
          dx[2 * row * width + width + column] = dy * gate * open;
        }
      }
      expect_close("y", gated.y, y, 1e-6 * largest(y));
      expect_close("dx", gated.dx, dx, 1e-6 * largest(dx));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(SwigluKernels, Floats) { check_swiglu<float>(); }
TEST(SwigluKernels, BFloat16) { check_swiglu<BFloat16>(); }
TEST(SwigluKernels, Halves) { check_swiglu<Half>(); }

TEST(SwigluKernels, GatesThatAreWideOpenOrShutStayFinite) {
  Gated<float> gated(1, 8);
  for (size_t i = 0; i < 8; ++i) {
    gated.x[i] = i % 2 ? 200.0f : -200.0f;
    gated.x[8 + i] = 3;
    gated.dy[i] = 2;
  }
  gated.run(1, 32);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(gated.y[i], i % 2 ? 600.0f : 0.0f) << i;
    EXPECT_EQ(gated.dx[i], i % 2 ? 6.0f : 0.0f) << i;
    EXPECT_EQ(gated.dx[8 + i], i % 2 ? 400.0f : 0.0f) << i;
  }
}

TEST(SwigluKernels, NanStaysAtItsPlace) {
  Gated<float> gated(2, 16);
  for (float& value : gated.x) value = 1;
  for (float& value : gated.dy) value = 1;
  gated.x[32 + 5] = NAN;   // a gate of row 1
  gated.x[16 + 9] = NAN;   // a value of row 0
  gated.dy[16 + 2] = NAN;  // of row 1
  gated.run(1, 32);
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(std::isnan(gated.y[i]), i == 16 + 5 || i == 9) << i;
  for (size_t i = 0; i < 64; ++i) {
    const bool is_of_gate = i == 32 + 5 || i == 48 + 5, is_of_value = i == 9, is_of_dy = i == 32 + 2 || i == 48 + 2;
    EXPECT_EQ(std::isnan(gated.dx[i]), is_of_gate || is_of_value || is_of_dy) << i;
  }
}

}  // namespace
}  // namespace lockstep::tests::cuda
