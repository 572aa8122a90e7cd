#include "plan/bucket_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "core/rng.h"

namespace lockstep::plan {
namespace {

std::vector<BucketItem> random_items(core::CounterRng& rng) {
  std::vector<BucketItem> items(1 + rng.below(40));
  for (size_t i = 0; i < items.size(); ++i) {
    const bool is_half = rng.below(4) == 0;
    items[i] = {.name = fmt::format("p{}", i),
                .num_elements = 1 + static_cast<int64_t>(rng.below(rng.below(3) == 0 ? 5000 : 40)),
                .dtype = is_half ? "BF16" : "F32",
                .element_bytes = is_half ? 2 : 4,
                .is_alone = rng.below(8) == 0};
  }
  return items;
}

TEST(BucketPlan, EveryElementLiesInOneBucketOnce) {
  core::CounterRng rng(core::stream_key({1, 2}));
  for (int round = 0; round < 500; ++round) {
    const auto items = random_items(rng);
    const int64_t cap = 1 + static_cast<int64_t>(rng.below(8000));
    const int64_t num_shards = 1 + static_cast<int64_t>(rng.below(7));
    const auto buckets = plan_buckets(items, cap, num_shards);
    int64_t expected_item = static_cast<int64_t>(items.size()) - 1;  // strictly reverse order, so each exactly once
    for (const Bucket& bucket : buckets) {
      ASSERT_FALSE(bucket.slots.empty());
      int64_t end = 0;
      for (const BucketSlot& slot : bucket.slots) {
        ASSERT_EQ(slot.item, expected_item--);
        ASSERT_TRUE(!items[static_cast<size_t>(slot.item)].is_alone || bucket.slots.size() == 1);
        ASSERT_EQ(slot.num_elements, items[static_cast<size_t>(slot.item)].num_elements);
        ASSERT_EQ(bucket.dtype, items[static_cast<size_t>(slot.item)].dtype);
        ASSERT_GE(slot.offset, end);
        ASSERT_EQ(slot.offset * bucket.element_bytes % kSlotAlignBytes, 0);
        end = slot.offset + slot.num_elements;
      }
      ASSERT_LE(end, bucket.num_elements);
      ASSERT_EQ(bucket.num_elements % num_shards, 0);
      ASSERT_EQ(bucket.num_elements / num_shards * bucket.element_bytes % kSlotAlignBytes, 0);
      ASSERT_TRUE(bucket.slots.size() == 1 || end * bucket.element_bytes <= cap) << "cap " << cap;
    }
    ASSERT_EQ(expected_item, -1);
  }
}

TEST(BucketPlan, ShardsCoverEveryElementOnce) {
  core::CounterRng rng(core::stream_key({3, 4}));
  for (int round = 0; round < 300; ++round) {
    const auto items = random_items(rng);
    const int64_t num_shards = 1 + static_cast<int64_t>(rng.below(6));
    for (const Bucket& bucket : plan_buckets(items, 1 + static_cast<int64_t>(rng.below(20000)), num_shards)) {
      std::vector<int> seen(static_cast<size_t>(bucket.num_elements), 0);
      const int64_t shard_elements = bucket.num_elements / num_shards;
      for (int64_t shard = 0; shard < num_shards; ++shard)
        for (const ShardSegment& segment : shard_segments(bucket, num_shards, shard)) {
          const auto slot = std::find_if(bucket.slots.begin(), bucket.slots.end(),
                                         [&](const BucketSlot& candidate) { return candidate.item == segment.item; });
          ASSERT_NE(slot, bucket.slots.end());
          ASSERT_LE(segment.shard_offset + segment.num_elements, shard_elements);
          ASSERT_EQ(shard * shard_elements + segment.shard_offset, slot->offset + segment.item_offset);
          for (int64_t i = 0; i < segment.num_elements; ++i)
            ++seen[static_cast<size_t>(slot->offset + segment.item_offset + i)];
        }
      int64_t expected = 0;
      for (const BucketSlot& slot : bucket.slots) {
        expected += slot.num_elements;
        for (int64_t i = 0; i < slot.num_elements; ++i) ASSERT_EQ(seen[static_cast<size_t>(slot.offset + i)], 1);
      }
      int64_t total = 0;
      for (const int count : seen) total += count;
      ASSERT_EQ(total, expected);
    }
  }
}

TEST(BucketPlan, ClosesABucketAtItsSizeAndAtATypeChange) {
  const std::vector<BucketItem> items = {
      {"a", 16, "F32", 4}, {"b", 16, "F32", 4}, {"c", 16, "F32", 4}, {"d", 32, "BF16", 2}};
  const auto two = plan_buckets(items, 128);
  ASSERT_EQ(two.size(), 3u);  // d | c b | a
  EXPECT_EQ(two[0].dtype, "BF16");
  EXPECT_EQ(two[1].slots.size(), 2u);
  EXPECT_EQ(two[1].num_elements, 32);
  EXPECT_EQ(two[2].slots[0].item, 0);
  EXPECT_EQ(plan_buckets(items, 1).size(), 4u);
  EXPECT_EQ(plan_buckets(items, int64_t{1} << 40).size(), 2u);
  EXPECT_TRUE(plan_buckets({}, 1).empty());
}

TEST(BucketPlan, RefusesNumbersBelowOne) {
  const std::vector<BucketItem> items = {{"weight", 0, "F32", 4}};
  try {
    plan_buckets(items, 1024);
    FAIL() << "an empty parameter was accepted";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("'weight'"), std::string::npos) << error.what();
  }
  EXPECT_THROW(plan_buckets({}, 0), UsageError);
  EXPECT_THROW(plan_buckets({}, 1, 0), UsageError);
}

}  // namespace
}  // namespace lockstep::plan
