#include "tasks/contrastive/front/contrastive_layouts.h"

#include <fmt/format.h>

namespace lockstep::tasks {

/// The same global batch in smaller and smaller micro-batches, each of which costs the second forward pass.
LayoutChoices contrastive_layouts(const LayoutQuestion& run) {
  using Flags = LayoutChoices::Flags;
  std::vector<Flags> micro, buckets;
  for (const int64_t count : {1, 2, 4, 8, 16}) {
    if (run.global_batch % (run.num_ranks * count) != 0) continue;
    micro.push_back({fmt::format("--batch-size={}", run.global_batch / run.num_ranks / count),
                     fmt::format("--accum-freq={}", count)});
  }
  for (const int mib : {25, 100, 400}) buckets.push_back({fmt::format("--bucket-mb={}", mib)});
  constexpr size_t kMicroFlags = 2;
  return {.layouts = combinations({{{"--grad-sync=ddp"}, {"--grad-sync=zero1"}},
                                   {{"--no-grad-checkpointing"}, {"--grad-checkpointing"}},
                                   buckets,
                                   micro}),
          .fixed = {fmt::format("--global-batch-size={}", run.global_batch)},
          .num_micro_flags = kMicroFlags};
}

}  // namespace lockstep::tasks
