#include "plan/bucket_plan.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace lockstep::plan {
namespace {

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

/// Elements between two aligned places.
int64_t align_elements(int64_t element_bytes) { return kSlotAlignBytes / std::gcd(kSlotAlignBytes, element_bytes); }

void check(std::span<const BucketItem> items, int64_t bucket_bytes, int64_t num_shards) {
  if (bucket_bytes < 1)
    throw UsageError(fmt::format("plan: bucket size is {} bytes, expected at least 1", bucket_bytes));
  if (num_shards < 1) throw UsageError(fmt::format("plan: {} shards, expected at least 1", num_shards));
  for (const BucketItem& item : items)
    if (item.num_elements < 1 || item.element_bytes < 1)
      throw UsageError(fmt::format("plan: parameter '{}' has {} elements of {} bytes, expected at least one of each",
                                   item.name, item.num_elements, item.element_bytes));
}

}  // namespace

std::vector<Bucket> plan_buckets(std::span<const BucketItem> items, int64_t bucket_bytes, int64_t num_shards) {
  check(items, bucket_bytes, num_shards);
  std::vector<Bucket> buckets;
  bool is_open = false;  // the last bucket takes more
  for (int64_t index = static_cast<int64_t>(items.size()) - 1; index >= 0; --index) {
    const BucketItem& item = items[static_cast<size_t>(index)];
    const int64_t align = align_elements(item.element_bytes);
    const bool fits =
        is_open && !item.is_alone && buckets.back().dtype == item.dtype &&
        (round_up(buckets.back().num_elements, align) + item.num_elements) * item.element_bytes <= bucket_bytes;
    if (!fits) buckets.push_back({.dtype = item.dtype, .element_bytes = item.element_bytes, .num_elements = 0});
    Bucket& bucket = buckets.back();
    const int64_t offset = round_up(bucket.num_elements, align);
    bucket.slots.push_back({.item = index, .offset = offset, .num_elements = item.num_elements});
    bucket.num_elements = offset + item.num_elements;
    is_open = !item.is_alone;
  }
  for (Bucket& bucket : buckets)
    bucket.num_elements = round_up(bucket.num_elements, align_elements(bucket.element_bytes) * num_shards);
  return buckets;
}

std::vector<ShardSegment> shard_segments(const Bucket& bucket, int64_t num_shards, int64_t shard) {
  LOCKSTEP_CHECK(num_shards >= 1 && shard >= 0 && shard < num_shards && bucket.num_elements % num_shards == 0,
                 "shard={} num_shards={} num_elements={}", shard, num_shards, bucket.num_elements);
  const int64_t shard_elements = bucket.num_elements / num_shards;
  const int64_t begin = shard * shard_elements;
  std::vector<ShardSegment> segments;
  for (const BucketSlot& slot : bucket.slots) {
    const int64_t from = std::max(begin, slot.offset);
    const int64_t to = std::min(begin + shard_elements, slot.offset + slot.num_elements);
    if (from >= to) continue;
    segments.push_back({.item = slot.item,
                        .item_offset = from - slot.offset,
                        .shard_offset = from - begin,
                        .num_elements = to - from});
  }
  return segments;
}

}  // namespace lockstep::plan
