#include "tasks/imagenet/front/imagenet_layouts.h"

#include <fmt/format.h>

namespace lockstep::tasks {

/// The same global batch in smaller and smaller micro-batches. Without a peak for a precision it is refused.
LayoutChoices imagenet_layouts(const LayoutQuestion& run) {
  using Flags = LayoutChoices::Flags;
  std::vector<Flags> micro, buckets;
  for (const int64_t count : {1, 2, 4, 8}) {
    if (run.global_batch % (run.num_ranks * count) != 0) continue;
    micro.push_back({fmt::format("--micro-batch-size={}", run.global_batch / run.num_ranks / count),
                     fmt::format("--accum-freq={}", count)});
  }
  for (const int mib : {5, 25, 100}) buckets.push_back({fmt::format("--bucket-mb={}", mib)});
  constexpr size_t kMicroFlags = 2;
  return {
      .layouts = combinations(
          {{{"--no-amp", "--precision=fp32"}, {"--no-amp", "--precision=amp"}, {"--no-amp", "--precision=amp_bf16"}},
           {{"--grad-sync=ddp"}, {"--grad-sync=zero1"}},
           buckets,
           micro}),
      .fixed = {fmt::format("--global-batch-size={}", run.global_batch)},
      .num_micro_flags = kMicroFlags};
}

}  // namespace lockstep::tasks
