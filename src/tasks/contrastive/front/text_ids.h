#pragma once
#include "config/clip_shape.h"

namespace lockstep::tasks {

/// UsageError for a model that takes fewer ids than CLIP's tokenizer has; others check theirs when they are read.
void check_text_ids(const config::ClipShape& shape);

}  // namespace lockstep::tasks
