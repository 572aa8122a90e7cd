// Layer norm on the GPU, run on the processor, against loops in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/kernel_numbers.h"

namespace lockstep::tests::cuda {
namespace {

struct NormShape {
  long rows;
  int width;
  unsigned threads_of_row() const { return static_cast<unsigned>((width / 8 + 31) / 32 * 32); }
  unsigned rows_of_block() const { return std::max(1u, 512 / threads_of_row()); }
  size_t count() const { return static_cast<size_t>(rows) * static_cast<size_t>(width); }
  size_t num_rows() const { return static_cast<size_t>(rows); }
  size_t num_columns() const { return static_cast<size_t>(width); }
  unsigned blocks_for_all() const { return (static_cast<unsigned>(rows) + rows_of_block() - 1) / rows_of_block(); }
};

/// Every width with few rows; many rows, which no number of rows of a block divides, where that is quick.
std::vector<NormShape> shapes() {
  std::vector<NormShape> all;
  for (const int width : {8, 40, 96, 512, 768, 1280, 2048, 4096}) {
    for (const long rows : {1, 3, 64, 130}) {
      if (rows * width <= 130 * 1280) all.push_back({rows, width});
    }
  }
  return all;
}

/// For further types: rows within a warp, of several warps, with idle threads, with few rows and many.
std::vector<NormShape> few_shapes() { return {{1, 8}, {130, 40}, {3, 768}, {64, 768}, {3, 1280}, {64, 2048}}; }

struct Moments {
  std::vector<double> mean, rstd;
};

/// Of each row of `s`; an RMSNorm's mean is 0.
Moments moments_of(const std::vector<double>& s, const NormShape& shape, double epsilon, bool is_rms) {
  Moments moments;
  for (size_t row = 0; row < shape.num_rows(); ++row) {
    const double* values = s.data() + row * shape.num_columns();
    double mean = 0, squares = 0;
    for (size_t i = 0; i < shape.num_columns() && !is_rms; ++i) mean += values[i] / shape.width;
    for (size_t i = 0; i < shape.num_columns(); ++i) squares += (values[i] - mean) * (values[i] - mean);
    moments.mean.push_back(mean);
    moments.rstd.push_back(1 / std::sqrt(squares / shape.width + epsilon));
  }
  return moments;
}

template <typename X, typename R, typename O, typename G, bool kHasResidual, bool kIsRms = false> struct Forward {
  Forward(const NormShape& the_shape, float the_epsilon)
      : shape(the_shape), epsilon(the_epsilon), x("x", shape.count()), residual("residual", shape.count()),
        gain("gain", shape.num_columns()), bias("bias", shape.num_columns()), sum("sum", shape.count()),
        out("out", shape.count()), mean("mean", shape.num_rows()), rstd("rstd", shape.num_rows()) {
    draw(residual, 2, -1);
    draw(gain, 3, 1, 0.3);
    draw(bias, 4);
  }
  void run(uint64_t seed) {
    const Grid grid{.blocks = {shape.blocks_for_all()}, .threads = {shape.threads_of_row(), shape.rows_of_block()}};
    launch(grid, seed, [&] {
      kernels::layer_norm_forward<X, R, O, G, kHasResidual, kIsRms>(
          shape.rows, shape.width, epsilon, x.data(), kHasResidual ? residual.data() : nullptr, gain.data(),
          kIsRms ? nullptr : bias.data(), kHasResidual ? sum.data() : nullptr, out.data(),
          kIsRms ? nullptr : mean.data(), rstd.data());
    });
  }

  NormShape shape;
  float epsilon;
  Buffer<X> x;
  Buffer<R> residual;
  Buffer<G> gain, bias;
  Buffer<X> sum;
  Buffer<O> out;
  Buffer<float> mean, rstd;
};

template <typename X, typename R, typename O, typename G, bool kHasResidual, bool kIsRms = false>
void check_forward(const NormShape& shape, float epsilon, double spread) {
  KERNEL_CASE(shape.rows, shape.width, epsilon, spread, kHasResidual, kIsRms);
  Forward<X, R, O, G, kHasResidual, kIsRms> norm(shape, epsilon);
  draw(norm.x, 1, 3 * spread, spread);
  norm.run(5);
  std::vector<double> s = wide_values(norm.x);
  if (kHasResidual) {
    for (size_t i = 0; i < s.size(); ++i) {
      const float added = static_cast<float>(s[i]) + static_cast<float>(wide(norm.residual[i]));
      ASSERT_TRUE(has_same_bits(norm.sum[i], narrow<X>(added))) << "sum at " << i;
      s[i] = wide(norm.sum[i]);
    }
  }
  const Moments moments = moments_of(s, shape, static_cast<double>(epsilon), kIsRms);
  std::vector<double> out;
  for (size_t i = 0; i < s.size(); ++i) {
    const size_t row = i / shape.num_columns(), column = i % shape.num_columns();
    const double shift = kIsRms ? 0 : wide(norm.bias[column]);
    out.push_back((s[i] - moments.mean[row]) * moments.rstd[row] * wide(norm.gain[column]) + shift);
  }
  if (!kIsRms) expect_close("mean", norm.mean, moments.mean, kSumming * largest(s));
  expect_close("rstd", norm.rstd, moments.rstd, 1e-5 * largest(moments.rstd));
  // The mean may be off by kSumming of the numbers, which are up to 7 spreads.
  expect_close("out", norm.out, out, 10 * kSumming * std::fmax(1, largest(out)));
}

template <typename X, typename R, typename O, typename G>
void check_forward_of_types(const std::vector<NormShape>& all) {
  for (const NormShape& shape : all) {
    check_forward<X, R, O, G, false>(shape, 1e-5f, 1);
    check_forward<X, R, O, G, true>(shape, 1e-5f, 1);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(LayerNormKernels, ForwardOfFloats) { check_forward_of_types<float, float, float, float>(shapes()); }
TEST(LayerNormKernels, ForwardOfBFloat16) {
  check_forward_of_types<BFloat16, BFloat16, BFloat16, BFloat16>(few_shapes());
}
TEST(LayerNormKernels, ForwardOfBFloat16WithFloatGain) {
  check_forward_of_types<BFloat16, BFloat16, BFloat16, float>(shapes());
}
TEST(LayerNormKernels, ForwardOfHalves) { check_forward_of_types<Half, Half, Half, float>(few_shapes()); }
TEST(LayerNormKernels, ForwardOfFloatsWithBFloat16ResidualAndResult) {
  check_forward_of_types<float, BFloat16, BFloat16, float>(few_shapes());
  check_forward<float, BFloat16, BFloat16, BFloat16, true>({64, 768}, 1e-5f, 1);
}

template <typename X, typename R, typename O, typename G> void check_rms_forward() {
  for (const NormShape& shape : few_shapes()) {
    check_forward<X, R, O, G, false, true>(shape, 1e-5f, 1);
    check_forward<X, R, O, G, true, true>(shape, 1e-5f, 1);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(LayerNormKernels, RmsForwardOfFloats) { check_rms_forward<float, float, float, float>(); }
TEST(LayerNormKernels, RmsForwardOfBFloat16) { check_rms_forward<BFloat16, BFloat16, BFloat16, BFloat16>(); }
TEST(LayerNormKernels, RmsForwardOfHalvesWithFloatGain) { check_rms_forward<Half, Half, Half, float>(); }

TEST(LayerNormKernels, ForwardOfTheWidestRows) {
  check_forward<float, float, float, float, true>({3, 8192}, 1e-5f, 1);  // 1024 threads
  check_forward<BFloat16, BFloat16, BFloat16, float, false>({130, 4096}, 1e-5f, 1);
}

TEST(LayerNormKernels, EpsilonIsAddedToTheVariance) {
  for (const float epsilon : {1e-12f, 1e-5f, 0.5f})
    check_forward<float, float, float, float, false>({3, 96}, epsilon, 0.1);
  Forward<float, float, float, float, false> norm({2, 40}, 1e-6f);
  for (float& value : norm.x) value = 7;  // no variance: the result is the bias
  norm.run(1);
  for (size_t i = 0; i < norm.out.size(); ++i) ASSERT_EQ(norm.out[i], norm.bias[i % 40]);
  for (const float rstd : norm.rstd) EXPECT_NEAR(rstd, 1e3, 1e-3);
}

TEST(LayerNormKernels, RmsOfRowsOfZerosIsZero) {
  for (const float epsilon : {1e-12f, 0.5f})
    check_forward<float, float, float, float, false, true>({3, 96}, epsilon, 0.1);
  Forward<float, float, float, float, false, true> norm({2, 40}, 1e-6f);
  for (float& value : norm.x) value = 0;
  norm.run(1);
  for (const float value : norm.out) EXPECT_EQ(value, 0.0f);
  for (const float rstd : norm.rstd) EXPECT_NEAR(rstd, 1e3, 1e-3);
}

TEST(LayerNormKernels, NanAndInfinitySpoilTheirRowAlone) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const int width : {40, 768}) {  // rows within a warp, rows of several
      KERNEL_CASE(bad, width);
      Forward<float, float, float, float, false> norm({5, width}, 1e-5f);
      for (size_t i = 0; i < norm.x.size(); ++i) norm.x[i] = std::sin(static_cast<float>(i));
      norm.x[2 * norm.shape.num_columns() + 11] = bad;
      norm.run(1);
      for (size_t i = 0; i < norm.out.size(); ++i)
        ASSERT_EQ(std::isnan(norm.out[i]), i / norm.shape.num_columns() == 2) << i;
    }
  }
}

TEST(LayerNormKernels, OrderOfThreadsAndBlocksChangesNothing) {
  Forward<BFloat16, BFloat16, BFloat16, float, true> a({64, 768}, 1e-5f), b({64, 768}, 1e-5f);
  draw(a.x, 1);
  draw(b.x, 1);
  a.run(1);
  for (uint64_t seed = 2; seed < 6; ++seed) {
    b.run(seed);
    for (size_t i = 0; i < a.out.size(); ++i) ASSERT_EQ(a.out[i].bits, b.out[i].bits) << i;
    for (size_t i = 0; i < a.mean.size(); ++i) ASSERT_TRUE(has_same_bits(a.mean[i], b.mean[i])) << i;
  }
}

template <typename X, typename R, typename O, typename G, bool kHasSum, bool kWantsResidual, bool kIsRms = false>
struct Backward {
  static constexpr size_t kNumSums = kIsRms ? 1 : 2;

  Backward(const NormShape& the_shape, unsigned the_blocks)
      : shape(the_shape), blocks(the_blocks), dout("dout", shape.count()), dsum("dsum", shape.count()),
        s("s", shape.count()), mean("mean", shape.num_rows()), rstd("rstd", shape.num_rows()),
        gain("gain", shape.num_columns()), dx("dx", shape.count()), dresidual("dresidual", shape.count()),
        parts("parts", blocks * kNumSums * shape.num_columns()) {
    draw(dout, 1);
    draw(dsum, 2);
    draw(s, 3, 2);
    draw(gain, 4, 1, 0.3);
    const Moments moments = moments_of(wide_values(s), shape, 1e-5, kIsRms);
    for (size_t row = 0; row < shape.num_rows(); ++row) {
      mean[row] = static_cast<float>(moments.mean[row]);
      rstd[row] = static_cast<float>(moments.rstd[row]);
    }
    mean.sealed();
    rstd.sealed();
  }
  void run(uint64_t seed) {
    const Grid grid{.blocks = {blocks},
                    .threads = {shape.threads_of_row(), shape.rows_of_block()},
                    .shared = kernels::of_rows,
                    .num_shared = 8 * shape.threads_of_row()};
    launch(grid, seed, [&] {
      kernels::layer_norm_backward<X, R, O, G, kHasSum, kWantsResidual, kIsRms>(
          shape.rows, shape.width, dout.data(), kHasSum ? dsum.data() : nullptr, s.data(),
          kIsRms ? nullptr : mean.data(), rstd.data(), gain.data(), dx.data(),
          kWantsResidual ? dresidual.data() : nullptr, parts.data());
    });
  }
  /// What blocks leave of one column, added up; `sum` 0 for the gain, 1 for the bias.
  double total(size_t sum, size_t column) const {
    double total = 0;
    for (size_t block = 0; block < blocks; ++block)
      total += static_cast<double>(parts[(block * kNumSums + sum) * shape.num_columns() + column]);
    return total;
  }

  NormShape shape;
  unsigned blocks;
  Buffer<O> dout;
  Buffer<X> dsum, s;
  Buffer<float> mean, rstd;
  Buffer<G> gain;
  Buffer<X> dx;
  Buffer<R> dresidual;
  Buffer<float> parts;
};

/// The gradient of sum(dout * (gain (s - mean) rstd + bias)) by s, with mean and rstd as functions of s; without mean
/// and bias for an RMSNorm.
template <typename X, typename R, typename O, typename G, bool kHasSum, bool kWantsResidual, bool kIsRms = false>
void check_backward(const NormShape& shape, unsigned blocks) {
  KERNEL_CASE(shape.rows, shape.width, blocks, kHasSum, kWantsResidual, kIsRms);
  Backward<X, R, O, G, kHasSum, kWantsResidual, kIsRms> norm(shape, blocks);
  norm.run(9);
  const size_t width = shape.num_columns();
  std::vector<double> dx(shape.count()), dgain(width), dbias(width), most_dgain(width), most_dbias(width);
  for (size_t row = 0; row < shape.num_rows(); ++row) {
    const double mean = static_cast<double>(norm.mean[row]), rstd = static_cast<double>(norm.rstd[row]);
    double of_one = 0, of_normed = 0;
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t column = 0; column < width; ++column) {
        const size_t place = row * width + column;
        const double dout = wide(norm.dout[place]), normed = (wide(norm.s[place]) - mean) * rstd;
        const double scaled = dout * wide(norm.gain[column]);
        if (pass == 0) {
          of_one += kIsRms ? 0 : scaled / shape.width;
          of_normed += scaled * normed / shape.width;
          dbias[column] += dout;
          dgain[column] += dout * normed;
          most_dbias[column] += std::fabs(dout);
          most_dgain[column] += std::fabs(dout * normed);
        } else {
          dx[place] = (scaled - of_one - normed * of_normed) * rstd + (kHasSum ? wide(norm.dsum[place]) : 0);
        }
      }
    }
  }
  expect_close("dx", norm.dx, dx, 2 * kSumming * largest(dx));
  if (kWantsResidual) {
    for (size_t i = 0; i < dx.size(); ++i)
      ASSERT_TRUE(has_same_bits(norm.dresidual[i], narrow<R>(wide(norm.dx[i])))) << "dresidual at " << i;
  }
  for (size_t column = 0; column < width; ++column) {
    ASSERT_LE(std::fabs(norm.total(0, column) - dgain[column]), kSumming * most_dgain[column]) << "gain at " << column;
    if (kIsRms) continue;
    ASSERT_LE(std::fabs(norm.total(1, column) - dbias[column]), kSumming * most_dbias[column]) << "bias at " << column;
  }
}

template <typename X, typename R, typename O, typename G>
void check_backward_of_types(const std::vector<NormShape>& all) {
  for (const NormShape& shape : all) {
    const unsigned most = shape.blocks_for_all();
    check_backward<X, R, O, G, false, false>(shape, most);
    check_backward<X, R, O, G, true, true>(shape, (most + 2) / 3);  // up to three turns, the last not for all blocks
    if (testing::Test::HasFatalFailure()) return;
  }
  check_backward<X, R, O, G, true, false>({130, 96}, 2);
  check_backward<X, R, O, G, false, true>({130, 768}, 3);
}

TEST(LayerNormKernels, BackwardOfFloats) { check_backward_of_types<float, float, float, float>(shapes()); }
TEST(LayerNormKernels, BackwardOfBFloat16) {
  check_backward_of_types<BFloat16, BFloat16, BFloat16, BFloat16>(few_shapes());
}
TEST(LayerNormKernels, BackwardOfBFloat16WithFloatGain) {
  check_backward_of_types<BFloat16, BFloat16, BFloat16, float>(shapes());
}
TEST(LayerNormKernels, BackwardOfHalves) { check_backward_of_types<Half, Half, Half, float>(few_shapes()); }
TEST(LayerNormKernels, BackwardOfFloatsWithBFloat16ResidualAndResult) {
  check_backward_of_types<float, BFloat16, BFloat16, float>(few_shapes());
  check_backward<float, BFloat16, BFloat16, BFloat16, true, true>({64, 768}, 4);
}
template <typename X, typename R, typename O, typename G> void check_rms_backward() {
  for (const NormShape& shape : few_shapes()) {
    check_backward<X, R, O, G, false, false, true>(shape, shape.blocks_for_all());
    check_backward<X, R, O, G, true, true, true>(shape, (shape.blocks_for_all() + 2) / 3);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(LayerNormKernels, RmsBackwardOfFloats) { check_rms_backward<float, float, float, float>(); }
TEST(LayerNormKernels, RmsBackwardOfBFloat16) { check_rms_backward<BFloat16, BFloat16, BFloat16, BFloat16>(); }
TEST(LayerNormKernels, RmsBackwardOfHalvesWithFloatGain) { check_rms_backward<Half, Half, Half, float>(); }

TEST(LayerNormKernels, BackwardOfTheWidestRows) {
  check_backward<float, float, float, float, true, true>({3, 6144}, 2);  // 768 threads
  check_backward<BFloat16, BFloat16, BFloat16, float, true, true>({130, 4096}, 16);
}

TEST(LayerNormKernels, BlocksWithoutRowsLeaveZeros) {
  Backward<float, float, float, float, false, false> norm({3, 768}, 4);  // five rows a block
  norm.run(1);
  for (size_t i = 2 * 768; i < norm.parts.size(); ++i) ASSERT_EQ(norm.parts[i], 0.0f) << i;
}

TEST(LayerNormKernels, OrderOfThreadsAndBlocksChangesNoGradient) {
  Backward<float, BFloat16, BFloat16, float, true, true> a({130, 768}, 7), b({130, 768}, 7);
  a.run(1);
  for (uint64_t seed = 2; seed < 5; ++seed) {
    b.run(seed);
    for (size_t i = 0; i < a.dx.size(); ++i) ASSERT_TRUE(has_same_bits(a.dx[i], b.dx[i])) << i;
    for (size_t i = 0; i < a.parts.size(); ++i) ASSERT_TRUE(has_same_bits(a.parts[i], b.parts[i])) << i;
  }
}

}  // namespace
}  // namespace lockstep::tests::cuda
