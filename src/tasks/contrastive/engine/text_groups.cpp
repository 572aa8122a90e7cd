#include "tasks/contrastive/engine/text_groups.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/error.h"

namespace lockstep::tasks {

std::vector<TextGroup> group_texts(std::span<const int64_t> num_ids, int64_t most_ids, const TextGrouping& grouping) {
  LOCKSTEP_CHECK(grouping.max_rows > 0 && grouping.length_step > 0, "rows={} step={}", grouping.max_rows,
                 grouping.length_step);
  const auto count = std::ssize(num_ids);
  const auto length = [&](int64_t row) {
    const int64_t ids = std::max<int64_t>(1, num_ids[static_cast<size_t>(row)]);
    return std::min(most_ids, (ids + grouping.length_step - 1) / grouping.length_step * grouping.length_step);
  };
  std::vector<int64_t> order(num_ids.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return length(a) < length(b); });
  // In rising order a group is a run that ends with its longest text; cost[end]: of the best cut of all before `end`.
  std::vector<int64_t> cost(num_ids.size() + 1, std::numeric_limits<int64_t>::max()), begin_of(num_ids.size() + 1, 0);
  cost[0] = 0;
  for (int64_t end = 1; end <= count; ++end) {
    const int64_t longest = length(order[static_cast<size_t>(end - 1)]);
    for (int64_t begin = std::max<int64_t>(0, end - grouping.max_rows); begin < end; ++begin) {
      const int64_t total = cost[static_cast<size_t>(begin)] + grouping.call_ids + (end - begin) * longest;
      if (total >= cost[static_cast<size_t>(end)]) continue;
      cost[static_cast<size_t>(end)] = total;
      begin_of[static_cast<size_t>(end)] = begin;
    }
  }
  std::vector<TextGroup> groups;
  for (int64_t end = count; end > 0; end = begin_of[static_cast<size_t>(end)])
    groups.push_back({.rows = {order.begin() + begin_of[static_cast<size_t>(end)], order.begin() + end},
                      .num_ids = length(order[static_cast<size_t>(end - 1)])});
  std::reverse(groups.begin(), groups.end());
  return groups;
}

}  // namespace lockstep::tasks
