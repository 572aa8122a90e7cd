#pragma once
#include <string>
#include <vector>

#include "tasks/gpt/front/gpt_options.h"

namespace lockstep::tasks {

/// Files of data and tokenizer that the flags name and that are not here.
struct MissingFile {
  std::string flag, path, hint;
};
std::vector<MissingFile> missing_data_files(const GptOptions& options);
std::vector<MissingFile> missing_tokenizer_files(const GptOptions& options);
/// UsageError that names all of them, but for a dry run, which reads no data.
void refuse_missing_files(const GptOptions& options);

/// Without --model and --vocab-size the tokenizer's files say how many tokens there are; with them UsageError where the
/// tokenizer has more. Returns warnings: in a dry run the files may be missing, or there is no tokenizer.
std::vector<std::string> take_vocabulary(GptOptions& options, core::OptionSet& set);

}  // namespace lockstep::tasks
