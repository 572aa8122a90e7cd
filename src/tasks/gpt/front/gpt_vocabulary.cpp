#include "tasks/gpt/front/gpt_vocabulary.h"

#include <fmt/format.h>

#include <filesystem>

#include "data/text/text_tokenizer.h"

namespace lockstep::tasks {

std::vector<std::string> take_vocabulary(GptOptions& options, core::OptionSet& set) {
  const bool has_tokenizer = !options.tokenizer_model.empty() || !options.vocab_file.empty();
  if (!options.model.empty() || options.vocab_size || !has_tokenizer) return {};
  const auto& [flag, file] = options.tokenizer_model.empty() ? std::pair("--vocab-file", options.vocab_file)
                                                             : std::pair("--tokenizer-model", options.tokenizer_model);
  std::error_code ignored;
  if (options.dry_run && !std::filesystem::exists(file, ignored)) {
    return {fmt::format("{} '{}' is not here: the vocabulary is taken to have {} tokens; a run takes the tokenizer's",
                        flag, file, gpt_shape_of(options).vocab)};
  }
  options.vocab_size =
      data::open_text_tokenizer(
          {.model = options.tokenizer_model, .vocab_file = options.vocab_file, .merge_file = options.merge_file})
          ->vocab_size();
  set.mark_derived("vocab-size", flag);
  gpt_shape_of(options);  // which refuses a --padded-vocab-size that is too small for it
  return {};
}

}  // namespace lockstep::tasks
