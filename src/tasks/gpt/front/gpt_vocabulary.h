#pragma once
#include <string>
#include <vector>

#include "tasks/gpt/front/gpt_options.h"

namespace lockstep::tasks {

/// Without --model and --vocab-size the tokenizer's files say how many tokens there are. Returns warnings: in a dry run
/// the files may be missing.
std::vector<std::string> take_vocabulary(GptOptions& options, core::OptionSet& set);

}  // namespace lockstep::tasks
