#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::tasks {

/// Texts that are computed together, each as long as the longest of them.
struct TextGroup {
  std::vector<int64_t> rows;  ///< Their numbers.
  int64_t num_ids = 0;        ///< Length of all.
};

struct TextGrouping {
  int64_t max_rows = 64;  ///< Of a group.
  /// Lengths are rounded up to multiples of it, so that few shapes occur.
  int64_t length_step = 1;
  /// What a further call costs, as that many ids more: it reads all weights again (text tower of ViT-B-32 in fp32:
  /// 150 MB, as long as the products of some 30 ids on two cores).
  int64_t call_ids = 32;
};

/// Every row in one group, so that padding and calls together cost least. No length is above `most_ids`.
std::vector<TextGroup> group_texts(std::span<const int64_t> num_ids, int64_t most_ids, const TextGrouping& grouping);

}  // namespace lockstep::tasks
