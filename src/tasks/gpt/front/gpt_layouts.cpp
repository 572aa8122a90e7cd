#include "tasks/gpt/front/gpt_layouts.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::tasks {

LayoutChoices gpt_layouts(const LayoutQuestion& run) {
  using Flags = LayoutChoices::Flags;
  std::vector<Flags> tensor, pipeline, chunks = {{"--num-layers-per-virtual-pipeline-stage=none"}}, micro;
  for (int64_t tp = 1; tp <= run.devices_per_node; tp *= 2)
    tensor.push_back({fmt::format("--tensor-model-parallel-size={}", tp),
                      tp > 1 ? "--sequence-parallel" : "--no-sequence-parallel"});
  for (int64_t pp = 1; pp <= std::min<int64_t>(64, run.num_ranks); pp *= 2)
    pipeline.push_back({fmt::format("--pipeline-model-parallel-size={}", pp)});
  for (const int layers : {1, 2}) chunks.push_back({fmt::format("--num-layers-per-virtual-pipeline-stage={}", layers)});
  for (const int size : {1, 2, 4}) micro.push_back({fmt::format("--micro-batch-size={}", size)});
  const std::vector<Flags> recompute = {{"--no-recompute-activations", "--recompute-granularity="},
                                        {"--no-recompute-activations", "--recompute-granularity=selective"},
                                        {"--no-recompute-activations", "--recompute-granularity=full",
                                         "--recompute-method=uniform", "--recompute-num-layers=1"}};
  return {.layouts = combinations({tensor,
                                   pipeline,
                                   chunks,
                                   micro,
                                   recompute,
                                   {{"--use-distributed-optimizer"}, {"--no-use-distributed-optimizer"}}}),
          .fixed = {fmt::format("--global-batch-size={}", run.global_batch)}};
}

}  // namespace lockstep::tasks
