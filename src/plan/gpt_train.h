#pragma once
#include "plan/gpt_layout.h"
#include "plan/gpt_memory.h"
#include "plan/gpt_traffic.h"
#include "spec/gpt_options.h"

namespace lockstep::plan {

/// The layout that the flags of `train gpt` ask for on this many ranks. UsageError as make_gpt_layout and gpt_shape_of.
GptLayout train_gpt_layout(const spec::GptOptions& options, int64_t world_size);

/// What the flags say about memory and messages.
GptMemoryInput train_gpt_memory(const spec::GptOptions& options);
GptTrafficInput train_gpt_traffic(const spec::GptOptions& options);

}  // namespace lockstep::plan
