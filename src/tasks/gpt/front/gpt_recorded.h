#pragma once
#include <string>

#include "core/json.h"
#include "tasks/gpt/front/gpt_options.h"

namespace lockstep::tasks {

/// What a run of `train gpt` recorded of its options (as OptionSet::values_json wrote them) about the model and its
/// tokenizer; all others have their defaults. Keys that are not known are passed over. DataError that names `where` for
/// values that the flags would not take.
GptOptions recorded_gpt_options(const core::Json& values, const std::string& where);

}  // namespace lockstep::tasks
