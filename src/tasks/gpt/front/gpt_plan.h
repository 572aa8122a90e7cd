#pragma once
#include "plan/gpt_layout.h"
#include "plan/gpt_memory.h"
#include "plan/gpt_traffic.h"
#include "tasks/gpt/front/gpt_options.h"

namespace lockstep::tasks {

/// The layout that the flags of `train gpt` ask for on this many ranks. UsageError as make_gpt_layout and gpt_shape_of.
plan::GptLayout train_gpt_layout(const tasks::GptOptions& options, int64_t world_size);

/// What the flags say about memory and messages. --device auto counts as a GPU.
plan::GptMemoryInput train_gpt_memory(const tasks::GptOptions& options);
plan::GptTrafficInput train_gpt_traffic(const tasks::GptOptions& options);

}  // namespace lockstep::tasks
