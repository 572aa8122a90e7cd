#pragma once
#include "tasks/front/layout_choices.h"

namespace lockstep::tasks {

/// The layouts that `predict --advise` tries: tensor and pipeline ranks, virtual stages, micro-batches and
/// recomputation.
LayoutChoices gpt_layouts(const LayoutQuestion& run);

}  // namespace lockstep::tasks
