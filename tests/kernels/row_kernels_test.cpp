// Copies of rows and rotations of positions, run on the processor, against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels/kernel_numbers.h"

namespace lockstep::tests::cuda {
namespace {

struct Copy {
  std::array<size_t, 3> sizes;  // of what is around rows
  size_t width;
  std::array<size_t, 3> from, to;  // strides of it
  unsigned threads_of_row, rows_of_block, blocks;

  static size_t extent(const std::array<size_t, 3>& sizes, const std::array<size_t, 3>& strides, size_t width) {
    size_t last = 0;
    for (size_t i = 0; i < 3; ++i) last += (sizes[i] - 1) * strides[i];
    return last + width;
  }
};

kernels::Strides strides_of(const std::array<size_t, 3>& strides) {
  return {{static_cast<long>(strides[0]), static_cast<long>(strides[1]), static_cast<long>(strides[2])}};
}

void check_copy(const Copy& copy) {
  KERNEL_CASE(copy.sizes, copy.width, copy.from, copy.to, copy.threads_of_row, copy.rows_of_block, copy.blocks);
  Buffer<BFloat16> from("from", Copy::extent(copy.sizes, copy.from, copy.width));
  Buffer<BFloat16> to("to", Copy::extent(copy.sizes, copy.to, copy.width));
  for (size_t i = 0; i < from.size(); ++i) from[i].bits = static_cast<unsigned short>(i % 65521);
  from.sealed();
  std::vector<unsigned short> want(to.size(), 0xffff);  // what is between rows stays as it is
  for (size_t i = 0; i < copy.sizes[0]; ++i) {
    for (size_t j = 0; j < copy.sizes[1]; ++j) {
      for (size_t k = 0; k < copy.sizes[2]; ++k) {
        for (size_t column = 0; column < copy.width; ++column)
          want[i * copy.to[0] + j * copy.to[1] + k * copy.to[2] + column] =
              from[i * copy.from[0] + j * copy.from[1] + k * copy.from[2] + column].bits;
      }
    }
  }
  launch({.blocks = {copy.blocks}, .threads = {copy.threads_of_row, copy.rows_of_block}}, 1, [&] {
    kernels::copy_rows(static_cast<long>(copy.sizes[0] * copy.sizes[1] * copy.sizes[2]),
                       static_cast<int>(copy.sizes[1]), static_cast<int>(copy.sizes[2]), static_cast<int>(copy.width),
                       from.data(), strides_of(copy.from), to.data(), strides_of(copy.to));
  });
  for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(to[i].bits, want[i]) << i;
}

TEST(RowKernels, CopiesOfOneDim) {
  check_copy({.sizes = {1, 1, 1},
              .width = 8,
              .from = {0, 0, 0},
              .to = {0, 0, 0},
              .threads_of_row = 1,
              .rows_of_block = 256,
              .blocks = 1});
  check_copy({.sizes = {1, 1, 21},
              .width = 40,
              .from = {0, 0, 48},
              .to = {0, 0, 40},
              .threads_of_row = 8,
              .rows_of_block = 8,
              .blocks = 3});
  check_copy({.sizes = {1, 1, 21},
              .width = 40,
              .from = {0, 0, 40},
              .to = {0, 0, 56},
              .threads_of_row = 8,
              .rows_of_block = 2,
              .blocks = 2});  // turns of which the last is not for all blocks
}

TEST(RowKernels, CopiesOfTwoDims) {
  check_copy({.sizes = {1, 3, 5},
              .width = 16,
              .from = {0, 16, 64},
              .to = {0, 80, 16},
              .threads_of_row = 2,
              .rows_of_block = 16,
              .blocks = 1});  // transposed
  check_copy({.sizes = {1, 5, 3},
              .width = 136,
              .from = {0, 0, 136},
              .to = {0, 3 * 136, 136},
              .threads_of_row = 32,
              .rows_of_block = 8,
              .blocks = 1});  // one row for many
}

TEST(RowKernels, CopiesOfThreeDims) {
  for (const unsigned rows_of_block : {1u, 4u, 32u}) {
    check_copy({.sizes = {2, 3, 5},
                .width = 64,
                .from = {64, 128, 512},
                .to = {1000, 320, 64},
                .threads_of_row = 8,
                .rows_of_block = rows_of_block,
                .blocks = 2});
    check_copy({.sizes = {4, 2, 3},
                .width = 24,
                .from = {192, 96, 32},
                .to = {24, 288, 96},
                .threads_of_row = 4,
                .rows_of_block = rows_of_block,
                .blocks = 3});
  }
}

TEST(RowKernels, CopiesOfRowsWiderThanABlock) {
  for (const size_t width : {2048, 2056, 4360})
    check_copy({.sizes = {1, 2, 2},
                .width = width,
                .from = {0, 9000, 4368},
                .to = {0, width, 2 * width},
                .threads_of_row = 256,
                .rows_of_block = 1,
                .blocks = 3});
}

/// A tensor [tokens, samples, groups, heads of it all, width], of whose heads those from `first_head` on are turned.
struct Turn {
  size_t tokens, samples, groups, heads, all_heads, first_head, width, half;
  bool has_table_of_samples, has_samples_first;  // the tensor may be [samples, tokens, ...]
  size_t stride_of_group() const { return all_heads * width; }
  size_t stride_of_token() const { return groups * stride_of_group() * (has_samples_first ? 1 : samples); }
  size_t stride_of_sample() const { return groups * stride_of_group() * (has_samples_first ? tokens : 1); }
  size_t count() const { return tokens * samples * groups * heads * width; }
  size_t table_samples() const { return has_table_of_samples ? samples : 1; }
  unsigned threads() const {  // as the launcher takes them
    const size_t all = groups * heads * (width - half) / 8;
    return static_cast<unsigned>(std::min<size_t>(256, (all + 31) / 32 * 32));
  }
};

std::vector<Turn> turns() {
  return {{3, 2, 2, 3, 5, 0, 64, 32, false, false}, {3, 2, 2, 2, 4, 1, 64, 32, true, false},
          {2, 3, 1, 4, 4, 0, 80, 16, true, true},   {2, 3, 2, 1, 3, 2, 24, 8, false, true},
          {1, 1, 1, 1, 1, 0, 16, 8, false, false},  {2, 1, 3, 16, 18, 1, 128, 64, true, false},
          {2, 2, 1, 2, 2, 0, 104, 32, false, false}};
}

template <typename T> struct Turned {
  explicit Turned(const Turn& the_turn)
      : turn(the_turn), x("x", turn.tokens * turn.samples * turn.groups * turn.all_heads * turn.width),
        cosine("cosine", turn.tokens * turn.table_samples() * turn.half), sine("sine", cosine.size()),
        y("y", turn.count()), back("back", turn.count()) {
    draw(x, 1);
    for (size_t i = 0; i < cosine.size(); ++i) {
      const double angle = 0.37 * static_cast<double>(i) + 0.1;
      cosine[i] = narrow<T>(std::cos(angle));
      sine[i] = narrow<T>(std::sin(angle));
    }
    cosine.sealed();
    sine.sealed();
  }
  void run(float direction) {
    const long sample = static_cast<long>(turn.stride_of_sample()), group = static_cast<long>(turn.stride_of_group());
    rotate(direction, x.data() + turn.first_head * turn.width, static_cast<long>(turn.stride_of_token()),
           {{sample, group, static_cast<long>(turn.width)}}, y);
  }
  /// y, which lies side by side, the other way.
  void run_back(float direction) {
    const long head = static_cast<long>(turn.width), group = head * static_cast<long>(turn.heads);
    const long sample = group * static_cast<long>(turn.groups);
    rotate(direction, y.data(), sample * static_cast<long>(turn.samples), {{sample, group, head}}, back);
  }
  void rotate(float direction, const T* from, long token_stride, const kernels::Strides& strides, Buffer<T>& to) {
    launch({.blocks = {static_cast<unsigned>(turn.tokens * turn.samples)}, .threads = {turn.threads()}}, 1, [&] {
      kernels::rotate<T>(static_cast<int>(turn.samples), static_cast<int>(turn.groups), static_cast<int>(turn.heads),
                         static_cast<int>(turn.width), static_cast<int>(turn.half), direction, from, token_stride,
                         strides, cosine.data(), sine.data(), static_cast<int>(turn.table_samples()), to.data());
    });
  }
  /// What is turned, in the order of the result.
  std::vector<double> source() const {
    std::vector<double> all;
    for (size_t i = 0; i < turn.count(); ++i) {
      const size_t column = i % turn.width, row = i / turn.width, head = row % turn.heads,
                   group = row / turn.heads % turn.groups, position = row / turn.heads / turn.groups;
      const size_t sample = position % turn.samples, token = position / turn.samples;
      all.push_back(wide(x[token * turn.stride_of_token() + sample * turn.stride_of_sample() +
                           group * turn.stride_of_group() + (turn.first_head + head) * turn.width + column]));
    }
    return all;
  }
  std::vector<double> want(double direction) const {
    const std::vector<double> from = source();
    std::vector<double> all = from;
    for (size_t i = 0; i < all.size(); ++i) {
      const size_t column = i % turn.width, begin = i - column;
      const size_t position = i / turn.width / turn.heads / turn.groups;
      const size_t sample = position % turn.samples, token = position / turn.samples;
      if (column >= 2 * turn.half) continue;
      const size_t pair = column % turn.half;
      const size_t row = turn.has_table_of_samples ? token * turn.samples + sample : token;
      const double c = wide(cosine[row * turn.half + pair]), s = direction * wide(sine[row * turn.half + pair]);
      const double first = from[begin + pair], second = from[begin + turn.half + pair];
      all[i] = column < turn.half ? first * c - second * s : second * c + first * s;
    }
    return all;
  }

  Turn turn;
  Buffer<T> x, cosine, sine, y, back;
};

template <typename T> void check_rotation() {
  for (const Turn& turn : turns()) {
    KERNEL_CASE(turn.tokens, turn.samples, turn.groups, turn.heads, turn.width, turn.half, turn.has_table_of_samples);
    Turned<T> turned(turn);
    for (const float direction : {1.0f, -1.0f}) {
      turned.run(direction);
      const std::vector<double> want = turned.want(static_cast<double>(direction));
      expect_close("y", turned.y, want, 3e-7 * largest(want));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(RowKernels, RotationsOfFloats) { check_rotation<float>(); }
TEST(RowKernels, RotationsOfBFloat16) { check_rotation<BFloat16>(); }
TEST(RowKernels, RotationsOfHalves) { check_rotation<Half>(); }

TEST(RowKernels, RotationBackUndoesARotation) {
  for (const Turn& turn : turns()) {
    KERNEL_CASE(turn.tokens, turn.samples, turn.groups, turn.heads, turn.width, turn.half);
    Turned<float> turned(turn);
    for (const float direction : {1.0f, -1.0f}) {
      turned.run(direction);
      turned.run_back(-direction);
      const std::vector<double> want = turned.source();
      expect_close("back", turned.back, want, 1e-6 * largest(want));
    }
  }
}

TEST(RowKernels, RestOfARowKeepsItsBits) {
  Turned<float> turned({2, 3, 1, 4, 4, 0, 80, 16, true, false});
  turned.run(1);
  for (size_t i = 0; i < turned.y.size(); ++i) {
    ASSERT_TRUE(i % 80 < 32 || has_same_bits(turned.y[i], turned.x[i])) << i;
  }
}

}  // namespace
}  // namespace lockstep::tests::cuda
