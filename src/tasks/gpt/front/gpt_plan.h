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

/// By how much a plan may be above the memory that is there before a run is refused: some of what is counted together
/// never exists together.
inline constexpr double kPlanMargin = 1.1;

/// EnvironmentError with both sizes when a plan is beyond the memory of a device (or machine) and the margin.
void refuse_beyond_memory(const config::GptShape& shape, double planned_bytes, double bytes, const std::string& device);

}  // namespace lockstep::tasks
