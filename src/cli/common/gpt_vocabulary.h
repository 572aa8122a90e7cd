#pragma once
#include "config/commands.h"

namespace lockstep::cli {

/// Of `train gpt` without --model and --vocab-size, but with a tokenizer: --vocab-size becomes what the tokenizer has.
/// Where the files of the tokenizer are not here a dry run keeps the default, with a warning in `command`. Other
/// commands stay as they are. Errors are those of data::open_text_tokenizer.
void take_vocabulary(config::ParsedCommand& command);

}  // namespace lockstep::cli
