#include "cli/common/gpt_vocabulary.h"

#include <fmt/format.h>

#include <filesystem>

#include "data/text/text_tokenizer.h"

namespace lockstep::cli {

void take_vocabulary(config::ParsedCommand& command) {
  if (!command.gpt || command.wants_help) return;
  config::GptOptions& options = *command.gpt;
  const bool has_tokenizer = !options.tokenizer_model.empty() || !options.vocab_file.empty();
  if (!options.model.empty() || options.vocab_size || !has_tokenizer) return;
  const auto& [flag, file] = options.tokenizer_model.empty() ? std::pair("--vocab-file", options.vocab_file)
                                                             : std::pair("--tokenizer-model", options.tokenizer_model);
  std::error_code ignored;
  if (options.run.dry_run && !std::filesystem::exists(file, ignored)) {
    command.warnings.push_back(
        fmt::format("{} '{}' is not here: the vocabulary is taken to have {} tokens; a run takes the tokenizer's", flag,
                    file, config::gpt_shape_of(options).vocab));
    return;
  }
  options.vocab_size =
      data::open_text_tokenizer(
          {.model = options.tokenizer_model, .vocab_file = options.vocab_file, .merge_file = options.merge_file})
          ->vocab_size();
  command.set->mark_derived("vocab-size", flag);
  config::gpt_shape_of(options);  // which refuses a --padded-vocab-size that is too small for it
}

}  // namespace lockstep::cli
