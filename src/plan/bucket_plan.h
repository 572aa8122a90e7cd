#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep::plan {

/// A parameter as far as its gradient's memory is concerned.
struct BucketItem {
  std::string name;
  int64_t num_elements = 0;
  std::string dtype;  ///< Any name; parameters of different types never share a bucket.
  int64_t element_bytes = 0;
  bool is_alone = false;  ///< In a bucket of its own, so that its shards do not depend on its neighbours.
};

/// Where one gradient lies.
struct BucketSlot {
  int64_t item = 0;    ///< Index into the list of parameters.
  int64_t offset = 0;  ///< In elements, from the start of the bucket; a multiple of kSlotAlignBytes in bytes.
  int64_t num_elements = 0;
};

/// One flat piece of memory that is communicated at once. Gaps between slots and at the end hold zeros.
struct Bucket {
  std::string dtype;
  int64_t element_bytes = 0;
  int64_t num_elements = 0;         ///< With gaps: a multiple of the number of shards.
  std::vector<BucketSlot> slots{};  ///< By offset.
};

/// The part of a parameter that lies in one shard of a bucket.
struct ShardSegment {
  int64_t item = 0;
  int64_t item_offset = 0;   ///< In elements, within the parameter.
  int64_t shard_offset = 0;  ///< In elements, within the shard.
  int64_t num_elements = 0;
};

/// Slots begin at multiples of this, so that vector loads of a parameter's gradient are aligned.
inline constexpr int64_t kSlotAlignBytes = 64;

/// Parameters in reverse order (the order in which backward finishes their gradients) -> buckets. A bucket is closed
/// when the next gradient would make it larger than `bucket_bytes` or has another type, so a parameter larger than that
/// has a bucket of its own. Each parameter lies in exactly one slot. Every bucket divides into `num_shards` equal
/// shards that begin at aligned places. A list with an empty parameter, or numbers below one, throws UsageError.
std::vector<Bucket> plan_buckets(std::span<const BucketItem> items, int64_t bucket_bytes, int64_t num_shards = 1);

/// What shard `shard` of `num_shards` (the number the bucket was planned for) holds, by offset.
std::vector<ShardSegment> shard_segments(const Bucket& bucket, int64_t num_shards, int64_t shard);

}  // namespace lockstep::plan
