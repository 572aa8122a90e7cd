#pragma once
#include "config/clip_shape.h"
#include "tasks/contrastive/front/contrastive_options.h"

namespace lockstep::tasks {

/// UsageError for a teacher that cannot read what the student reads: pictures of another size or, where its weights
/// tell, of another mean or standard deviation; texts of another length or other token ids. `student`: the shape of
/// the options, for options.has_teacher().
void check_teacher(const ContrastiveOptions& options, const config::ClipShape& student);

/// UsageError where --distill-pretrained names weights that are not here.
void find_teacher_weights(const ContrastiveOptions& options);

}  // namespace lockstep::tasks
