// Which elements dropout drops, and that its two passes agree. A CPU has a kernel for fp32 and 16-bit types; for fp64
// it takes the operators that devices without kernels take.
#include "nn/dropout.h"

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>

#include "nn/module.h"
#include "nn/recompute.h"

namespace lockstep::nn {
namespace {

/// What SplitMix64 draws for an element, in other words than the kernels' and the operators'.
double drawn_by_hand(uint64_t key, int64_t row_number, int64_t column) {
  const auto mixed = [](uint64_t x) {
    for (const auto& [shift, factor] : {std::pair{30, 0xbf58476d1ce4e5b9u}, {27, 0x94d049bb133111ebu}}) {
      x ^= x >> shift;
      x *= factor;
    }
    return x ^ x >> 31;
  };
  const uint64_t of_row = mixed(key + static_cast<uint64_t>(row_number));
  const uint64_t drawn = mixed(of_row + static_cast<uint64_t>(column) * 0x9e3779b97f4a7c15u);
  return static_cast<double>(drawn % (uint64_t{1} << 24)) / (1 << 24);
}

/// 1 where an element stays.
at::Tensor mask_by_hand(int64_t columns, const Dropout& dropout) {
  const at::Tensor rows = dropout.rows.reshape({-1});
  const at::Tensor mask = at::empty({rows.numel(), columns}, at::kDouble);
  for (int64_t row = 0; row < rows.numel(); ++row)
    for (int64_t column = 0; column < columns; ++column)
      mask[row][column] = drawn_by_hand(dropout.key, rows[row].item<int64_t>(), column) < 1 - dropout.probability;
  return mask;
}

TEST(Dropout, DependsOnTheNumberOfARowAlone) {
  const at::Tensor x = at::ones({40, 3, 64});
  const at::Tensor rows = at::arange(120).view({40, 3});
  const Dropout whole{.probability = 0.3, .key = 11, .rows = rows};
  const at::Tensor y = dropout(x, whole);
  const at::Tensor part = dropout(x.narrow(0, 8, 16), {.probability = 0.3, .key = 11, .rows = rows.narrow(0, 8, 16)});
  EXPECT_TRUE(at::equal(part, y.narrow(0, 8, 16)));
  const double kept = y.ne(0).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(kept, 0.7, 4 * std::sqrt(0.21 / 7680)) << "four deviations";
  EXPECT_NEAR(y.max().item<double>(), 1 / 0.7, 1e-6);
  const at::Tensor other = dropout(x, {.probability = 0.3, .key = 12, .rows = rows});
  EXPECT_NEAR(other.eq(y).to(at::kDouble).mean().item<double>(), 0.58, 0.03)
      << "another key draws apart from the first";
  const at::Tensor first = y.select(1, 0).ne(0).to(at::kDouble), second = y.select(1, 1).ne(0).to(at::kDouble);
  EXPECT_NEAR((first * second).mean().item<double>(), 0.49, 0.04) << "neighbouring rows draw apart";
  EXPECT_NEAR((y.narrow(2, 0, 63).ne(0) * y.narrow(2, 1, 63).ne(0)).to(at::kDouble).mean().item<double>(), 0.49, 0.03);
}

/// A CPU draws masks of fp32 and of 16-bit types in a kernel, of fp64 by the operators that devices have: runs that go
/// on with another build, or elsewhere, drop the same elements.
TEST(Dropout, KernelDrawsTheBitsOfTheOperators) {
  const at::Tensor many = at::ones({3, (int64_t{1} << 21) + 5}, at::kDouble);  // drawn in several parts
  const Dropout parts{.probability = 0.5, .key = 5, .rows = at::arange(3).mul(7)};
  EXPECT_TRUE(at::equal(dropout(many.to(at::kFloat), parts).ne(0), dropout(many, parts).ne(0)));
  for (const int64_t columns : {1, 7, 16, 63, 200})
    for (const uint64_t key : {uint64_t{0}, uint64_t{11}, ~uint64_t{0} - 5})
      for (const double probability : {0.1, 0.5, 0.999}) {
        const at::Tensor rows = at::arange(24).mul(0x123456789abcdef).sub(int64_t{1} << 62).view({8, 3});
        const at::Tensor x = at::ones({8, 3, columns}, at::kDouble);
        const Dropout drawn{.probability = probability, .key = key, .rows = rows.transpose(0, 1).reshape({3, 8}).t()};
        const at::Tensor want = dropout(x, drawn).ne(0);
        for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
          EXPECT_TRUE(at::equal(dropout(x.to(type), drawn).ne(0), want)) << columns << " " << key << " " << type;
        if (columns == 200 && probability == 0.5) {
          EXPECT_NEAR(want.to(at::kDouble).mean().item<double>(), 0.5, 0.05);
        }
      }
}

TEST(Dropout, IsTheMaskTimesTheScaleRoundedOnce) {
  const at::Tensor rows = at::arange(10).mul(-3).add(int64_t{1} << 40).view({5, 2});
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble})
    for (const double probability : {0.1, 0.7}) {
      const at::Tensor x = at::arange(230).sub(115).div(3.0).view({5, 2, 23}).to(type);
      const Dropout dropped{.probability = probability, .key = 41, .rows = rows};
      const at::Tensor mask = mask_by_hand(23, dropped).view_as(x).to(type);
      const at::Tensor y = dropout(x, dropped), want = x.mul(mask).mul(1 / (1 - probability));
      EXPECT_EQ(y.scalar_type(), type);
      EXPECT_TRUE(at::equal(y, want)) << type << " " << probability;
      EXPECT_TRUE(at::equal(y.signbit(), want.signbit())) << "zeros have the sign of what was dropped: " << type;
      ASSERT_GT(mask.sum().item<double>(), 0);
      ASSERT_LT(mask.sum().item<double>(), 230);
    }
}

/// Each number of 16 bits: the CPU's kernel rounds as the tensor library does.
TEST(Dropout, EveryNumberOf16BitsIsScaledAsByTheLibrary) {
  const Dropout dropped{.probability = 0.3, .key = 2};
  const at::Tensor bits = at::arange(1 << 16, at::kInt).sub(1 << 15).to(at::kShort).view({256, 256});
  const at::Tensor mask = mask_by_hand(256, {.probability = 0.3, .key = 2, .rows = at::arange(256)});
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor x = bits.view(type), want = x.mul(mask.to(type)).mul(1 / 0.7);
    const at::Tensor y = dropout(x, dropped);
    EXPECT_TRUE(at::equal(y.isnan(), want.isnan())) << type;
    const at::Tensor is_number = want.isnan().logical_not();
    EXPECT_TRUE(at::equal(y.view(at::kShort).masked_select(is_number), want.view(at::kShort).masked_select(is_number)))
        << type;
  }
}

TEST(Dropout, RowsWithoutNumbersAreCounted) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const at::Tensor x = at::ones({6, 5, 24}, type);
    EXPECT_TRUE(at::equal(dropout(x, {.probability = 0.4, .key = 3}),
                          dropout(x, {.probability = 0.4, .key = 3, .rows = at::arange(30)})));
    EXPECT_FALSE(at::equal(dropout(x, {.probability = 0.4, .key = 3}),
                           dropout(x, {.probability = 0.4, .key = 3, .rows = at::arange(30).add(1)})));
  }
}

TEST(Dropout, PermutedRowsHavePermutedMasks) {
  const at::Tensor x = at::ones({50, 16}), rows = at::arange(50), order = rows.mul(7).remainder(50);
  const at::Tensor y = dropout(x, {.probability = 0.5, .key = 9, .rows = rows});
  const at::Tensor permuted = dropout(x, {.probability = 0.5, .key = 9, .rows = rows.index_select(0, order)});
  EXPECT_TRUE(at::equal(permuted, y.index_select(0, order)));
  EXPECT_FALSE(at::equal(permuted, y));
}

TEST(Dropout, StridesOfXAndOfTheGradientDoNotMatter) {
  const at::Tensor x = at::arange(1, 193).view({12, 16}).to(at::kFloat);
  const Dropout dropped{.probability = 0.5, .key = 4};
  const at::Tensor want = dropout(x, dropped);
  at::Tensor turned = x.t().contiguous().t().requires_grad_(true);
  const at::Tensor y = dropout(turned, dropped);
  EXPECT_TRUE(at::equal(y, want));
  y.backward(x.t().contiguous().t());
  EXPECT_TRUE(at::equal(turned.grad(), want));
}

TEST(Dropout, GradientIsMaskTimesScale) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble})
    for (const bool has_rows : {true, false}) {
      const Dropout dropped{
          .probability = 0.25, .key = 8, .rows = has_rows ? at::arange(64).mul(5).view({8, 8}) : at::Tensor()};
      at::Tensor x = at::full({8, 8, 40}, 2.0, type).requires_grad_(true);
      const at::Tensor gradient = at::arange(8 * 8 * 40).remainder(97).sub(48).div(7).view(x.sizes()).to(type);
      const at::Tensor y = dropout(x, dropped);
      y.backward(gradient);
      const at::Tensor mask = y.detach().ne(0).to(type);
      EXPECT_TRUE(at::equal(x.grad(), gradient.mul(mask).mul(1 / 0.75))) << type << has_rows;
      EXPECT_NEAR(mask.to(at::kDouble).mean().item<double>(), 0.75, 4 * std::sqrt(0.1875 / 2560));
    }
}

TEST(Dropout, SecondDerivativesGoThroughTheSameMask) {
  at::Tensor x = at::arange(1, 65).view({4, 16}).to(at::kDouble).requires_grad_(true);
  const Dropout dropped{.probability = 0.5, .key = 6};
  const at::Tensor y = dropout(x, dropped);
  const auto first =
      torch::autograd::grad({y.square().sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  const auto second = torch::autograd::grad({first.sum()}, {x})[0];
  const at::Tensor mask = y.detach().ne(0).to(at::kDouble);
  EXPECT_TRUE(at::allclose(second, mask.mul(2 * 2 * 2)));  // (2 mask x)^2
  ASSERT_GT(mask.sum().item<double>(), 0);
}

TEST(Dropout, RecomputationDrawsTheSameAgain) {
  const auto gradient = [](bool is_recomputed) {
    at::Tensor x = at::arange(1, 257).view({8, 32}).to(at::kFloat).requires_grad_(true);
    Module no_parameters;
    const auto drop = [](const at::Tensor& given) { return dropout(given, {.probability = 0.3, .key = 7}); };
    const at::Tensor y = is_recomputed ? recomputed(no_parameters, x, drop) : drop(x);
    at::rand({64});  // which moves the library's generator
    y.mul(y).sum().backward();
    return x.grad();
  };
  EXPECT_TRUE(at::equal(gradient(true), gradient(false)));
  EXPECT_GT(gradient(false).eq(0).sum().item<int64_t>(), 0);
}

/// What tensors of this thread fill, from its making on.
class LiveBytes : public c10::MemoryReportingInfoBase {
 public:
  int64_t bytes = 0;
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override { bytes += size; }
  bool memoryProfilingEnabled() const override { return true; }
};

/// The plan of a GPT's memory counts on it.
TEST(Dropout, KeepsNothingForTheBackwardPass) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    const auto live = std::make_shared<LiveBytes>();
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, live);
    const at::Tensor x = at::ones({64, 96}, type).requires_grad_(true), rows = at::arange(64);
    const int64_t before = live->bytes;
    ASSERT_GT(before, 0) << "the allocator reports";
    const at::Tensor y = dropout(x, {.probability = 0.5, .key = 1, .rows = rows});
    EXPECT_EQ(live->bytes - before, static_cast<int64_t>(y.nbytes())) << type;
    EXPECT_TRUE(y.requires_grad());
  }
}

/// Else scaling losses would not see that a loss is no number any more.
TEST(Dropout, WhatIsNoNumberStaysSeen) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    const at::Tensor x = at::full({8, 16}, std::numeric_limits<double>::quiet_NaN(), type);
    EXPECT_TRUE(dropout(x, {.probability = 0.5, .key = 1}).isnan().all().item<bool>()) << type;
  }
}

TEST(Dropout, NothingOrNoShareIsGivenBack) {
  const at::Tensor x = at::ones({3, 4});
  EXPECT_TRUE(dropout(x, {}).is_same(x));
  at::Tensor empty = at::ones({0, 4}).requires_grad_(true);
  const at::Tensor y = dropout(empty, {.probability = 0.5, .rows = at::empty({0}, at::kLong)});
  EXPECT_EQ(y.sizes(), empty.sizes());
  y.sum().backward();
  EXPECT_EQ(empty.grad().sizes(), empty.sizes());
  EXPECT_THROW(dropout(x, {.probability = 0.5, .rows = at::arange(4)}), std::exception);
}

}  // namespace
}  // namespace lockstep::nn
