#pragma once
#include "tasks/front/layout_choices.h"

namespace lockstep::tasks {

/// The layouts that `predict --advise` tries: precision, gradient synchronisation, buckets and micro-batches.
LayoutChoices imagenet_layouts(const LayoutQuestion& run);

}  // namespace lockstep::tasks
