#include "tasks/contrastive/engine/text_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/rng.h"

namespace lockstep::tasks {
namespace {

int64_t cost_of(const std::vector<TextGroup>& groups, int64_t call_ids) {
  int64_t cost = 0;
  for (const TextGroup& group : groups) cost += call_ids + std::ssize(group.rows) * group.num_ids;
  return cost;
}

/// Every cut of the sorted lengths.
int64_t least_cost(std::vector<int64_t> lengths, int64_t call_ids) {
  std::sort(lengths.begin(), lengths.end());
  const size_t count = lengths.size();
  int64_t least = INT64_MAX;
  for (uint64_t cuts = 0; cuts < uint64_t{1} << (count - 1); ++cuts) {
    int64_t cost = 0, rows = 0;
    for (size_t i = 0; i < count; ++i) {
      ++rows;
      if (i + 1 < count && (cuts >> i & 1) == 0) continue;
      cost += call_ids + rows * lengths[i];
      rows = 0;
    }
    least = std::min(least, cost);
  }
  return least;
}

TEST(TextGroups, EveryRowOnceAndNoCutIsCheaper) {
  core::CounterRng rng(7);
  for (int round = 0; round < 60; ++round) {
    std::vector<int64_t> lengths(1 + rng.below(11));
    for (int64_t& length : lengths) length = 1 + static_cast<int64_t>(rng.below(77));
    const int64_t call_ids = static_cast<int64_t>(rng.below(80));
    const auto groups = group_texts(lengths, 77, {.max_rows = 64, .call_ids = call_ids});
    std::multiset<int64_t> rows;
    for (const TextGroup& group : groups)
      for (const int64_t row : group.rows) {
        rows.insert(row);
        EXPECT_GE(group.num_ids, lengths[static_cast<size_t>(row)]);
      }
    EXPECT_EQ(rows.size(), lengths.size());
    for (int64_t row = 0; row < std::ssize(lengths); ++row) EXPECT_EQ(rows.count(row), 1u);
    EXPECT_EQ(cost_of(groups, call_ids), least_cost(lengths, call_ids));
  }
}

TEST(TextGroups, OneLongCaptionDoesNotStretchTheOthers) {
  std::vector<int64_t> lengths(31, 9);
  lengths.push_back(77);
  const auto groups = group_texts(lengths, 77, {});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].num_ids, 9);
  EXPECT_EQ(groups[1].rows, std::vector<int64_t>{31});
}

TEST(TextGroups, LengthsAreRoundedUpAndGroupsAreNoLargerThanAllowed) {
  const std::vector<int64_t> lengths = {3, 17, 16, 70, 5};
  for (const TextGroup& group : group_texts(lengths, 77, {.max_rows = 2, .length_step = 16, .call_ids = 1000})) {
    EXPECT_LE(group.rows.size(), 2u);
    EXPECT_TRUE(group.num_ids % 16 == 0 || group.num_ids == 77) << group.num_ids;
  }
  EXPECT_TRUE(group_texts({}, 77, {}).empty());
  EXPECT_EQ(group_texts(std::vector<int64_t>{0}, 77, {}).at(0).num_ids, 1);
}

}  // namespace
}  // namespace lockstep::tasks
