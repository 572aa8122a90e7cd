#pragma once
#include <ATen/core/TensorBody.h>

#include "plan/gpt_layout.h"
#include "tasks/gpt/front/gpt_options.h"
#include "train/memory_fit.h"

namespace lockstep::tasks {

/// What each rank of a layout is planned to hold on this kind of device.
train::PlannedMemory planned_gpt_memory(GptOptions options, const plan::GptLayout& layout, at::Device device);

}  // namespace lockstep::tasks
