#pragma once
#include "config/gpt_options.h"
#include "plan/gpt_layout.h"
#include "plan/gpt_memory.h"
#include "plan/gpt_traffic.h"

namespace lockstep::plan {

/// The layout that the flags of `train gpt` ask for on this many ranks. UsageError as make_gpt_layout and gpt_shape_of.
GptLayout train_gpt_layout(const config::GptOptions& options, int64_t world_size);

/// What the flags say about memory and messages. --device auto counts as a GPU.
GptMemoryInput train_gpt_memory(const config::GptOptions& options);
GptTrafficInput train_gpt_traffic(const config::GptOptions& options);

/// By how much a plan may be above the memory that is there before a run is refused: some of what is counted together
/// never exists together.
inline constexpr double kPlanMargin = 1.1;

/// EnvironmentError with both sizes when a plan is beyond the memory of a device (or machine) and the margin.
void refuse_beyond_memory(const config::GptShape& shape, double planned_bytes, double bytes, const std::string& device);

}  // namespace lockstep::plan
