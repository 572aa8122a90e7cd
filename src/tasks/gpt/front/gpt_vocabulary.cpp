#include "tasks/gpt/front/gpt_vocabulary.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/error.h"
#include "data/text/text_tokenizer.h"
#include "data/tokens/gpt_dataset.h"
#include "data/tokens/indexed_dataset.h"

namespace lockstep::tasks {

namespace {

bool is_missing(const std::filesystem::path& path) {
  std::error_code ignored;
  return !path.empty() && !std::filesystem::exists(path, ignored);
}

}  // namespace

std::vector<MissingFile> missing_data_files(const GptOptions& options) {
  std::vector<MissingFile> missing;
  for (const auto& [flag, words] :
       {std::pair("--data-path", options.data_path), std::pair("--train-data-path", options.train_data_path),
        std::pair("--valid-data-path", options.valid_data_path)})
    for (const std::string& path : data::parse_blend(words).prefixes)
      for (const char* ending : {".idx", ".bin"}) {
        const std::string file = data::indexed_prefix(path).string() + ending;
        if (is_missing(file)) missing.push_back({flag, file});
      }
  return missing;
}

std::vector<MissingFile> missing_tokenizer_files(const GptOptions& options) {
  std::vector<MissingFile> missing;
  for (const auto& [flag, path] :
       {std::pair("--tokenizer-model", options.tokenizer_model), std::pair("--vocab-file", options.vocab_file),
        std::pair("--merge-file", options.merge_file)})
    if (is_missing(path)) missing.push_back({flag, path});
  return missing;
}

void refuse_missing_files(const GptOptions& options) {
  if (options.dry_run) return;
  UsageProblems problems;
  const auto collect = [&](const std::vector<MissingFile>& files, const char* hint) {
    for (const MissingFile& file : files)
      problems.collect(
          [&] { throw UsageError(fmt::format("train: {}: '{}' does not exist", file.flag, file.path), hint); });
  };
  collect(missing_tokenizer_files(options), "`lockstep data train-bpe` makes tokenizers");
  collect(missing_data_files(options), "`lockstep data tokenize` writes .bin and .idx files; give their common prefix");
  problems.raise();
}

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
