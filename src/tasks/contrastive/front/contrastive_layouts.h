#pragma once
#include "tasks/front/layout_choices.h"

namespace lockstep::tasks {

/// The layouts that `predict --advise` tries: gradient synchronisation and checkpointing.
LayoutChoices contrastive_layouts(const LayoutQuestion& run);

}  // namespace lockstep::tasks
