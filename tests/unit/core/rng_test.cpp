#include "core/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace lockstep::core {
namespace {

TEST(Philox, KnownAnswers) {  // vectors of the Random123 distribution, philox4x32-10
  EXPECT_EQ(philox(0, 0, 0), (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, ~0ull, ~0ull), (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Permutation, IsABijectionForManySizes) {
  for (const uint64_t count : {1ull, 2ull, 3ull, 5ull, 64ull, 65ull, 1000ull, 4097ull}) {
    const Permutation order(count, /*key=*/count * 77 + 1);
    std::vector<bool> seen(count);
    for (uint64_t index = 0; index < count; ++index) {
      ASSERT_LT(order(index), count);
      ASSERT_FALSE(seen[order(index)]) << count;
      seen[order(index)] = true;
    }
  }
}

TEST(Permutation, KeysGiveDifferentOrders) {
  int same = 0;
  for (uint64_t index = 0; index < 1000; ++index) same += Permutation(1000, 1)(index) == Permutation(1000, 2)(index);
  EXPECT_LT(same, 20);
}

TEST(CounterRng, MomentsOfNormalAndUniform) {
  CounterRng rng(stream_key(3, "test"));
  double sum = 0, squares = 0, uniform_sum = 0;
  const int n = 100000;
  for (int draw = 0; draw < n; ++draw) {
    const double x = rng.normal();
    sum += x, squares += x * x, uniform_sum += rng.uniform();
  }
  EXPECT_NEAR(sum / n, 0.0, 0.015);
  EXPECT_NEAR(squares / n, 1.0, 0.02);
  EXPECT_NEAR(uniform_sum / n, 0.5, 0.005);
}

TEST(CounterRng, ContinuesFromAPosition) {
  CounterRng first(9);
  for (int draw = 0; draw < 10; ++draw) first.next_u64();
  CounterRng second(9, first.position());
  EXPECT_EQ(first.next_u64(), second.next_u64());
}

TEST(CounterRng, BelowCoversItsRange) {
  CounterRng rng(11);
  std::vector<int> hits(7);
  for (int draw = 0; draw < 7000; ++draw) ++hits[rng.below(7)];
  for (const int count : hits) EXPECT_NEAR(count, 1000, 150);
}

}  // namespace
}  // namespace lockstep::core
