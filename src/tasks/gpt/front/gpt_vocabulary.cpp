#include "tasks/gpt/front/gpt_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/error.h"
#include "core/strings.h"
#include "data/text/text_tokenizer.h"
#include "data/tokens/gpt_dataset.h"
#include "data/tokens/indexed_dataset.h"
#include "data/tokens/token_ids.h"

namespace lockstep::tasks {

namespace {

std::string data_hint(const std::string& prefix) {
  if (core::parse_double(prefix))
    return "weights and prefixes alternate: one weight before each prefix, or none at all";
  return "`lockstep data tokenize` writes .bin and .idx files; give their common prefix";
}

std::string tokenizer_hint(const std::filesystem::path& file) {
  if (file.extension() == ".model")
    return "copy the SentencePiece model with which the tokens were made; `lockstep data train-bpe` makes a "
           "tokenizer.json";
  return "`lockstep data train-bpe` makes tokenizers";
}

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
        if (is_missing(file)) missing.push_back({flag, file, data_hint(path)});
      }
  return missing;
}

std::vector<MissingFile> missing_tokenizer_files(const GptOptions& options) {
  std::vector<MissingFile> missing;
  for (const auto& [flag, path] :
       {std::pair("--tokenizer-model", options.tokenizer_model), std::pair("--vocab-file", options.vocab_file),
        std::pair("--merge-file", options.merge_file)})
    if (is_missing(path)) missing.push_back({flag, path, tokenizer_hint(path)});
  return missing;
}

void refuse_missing_files(const GptOptions& options) {
  if (options.dry_run) return;
  UsageProblems problems;
  for (const auto& files : {missing_tokenizer_files(options), missing_data_files(options)})
    for (const MissingFile& file : files)
      problems.collect(
          [&] { throw UsageError(fmt::format("train: {}: '{}' does not exist", file.flag, file.path), file.hint); });
  problems.raise();
}

namespace {

bool has_tokenizer(const GptOptions& options) {
  return !options.tokenizer_model.empty() || !options.vocab_file.empty();
}

constexpr double kIdScan_s = 0.5;

/// The largest id of the data; nothing where they are not here, are damaged, or too long to be read in passing.
std::optional<int64_t> largest_id(const GptOptions& options) {
  if (!missing_data_files(options).empty()) return std::nullopt;
  std::optional<int64_t> most;
  try {
    for (const auto* words : {&options.data_path, &options.train_data_path, &options.valid_data_path})
      for (const std::string& prefix : data::parse_blend(*words).prefixes) {
        const data::IndexedDataset files(prefix);
        const data::TokenIds ids = data::scan_token_ids(files, kIdScan_s);
        if (ids.num_read < files.num_tokens()) return std::nullopt;
        most = std::max(most.value_or(0), ids.most);
      }
  } catch (const DataError&) {
    return std::nullopt;  // the run says what is damaged
  }
  return most;
}

/// Nobody says how many tokens there are.
std::string assumed_vocabulary_warning(const GptOptions& options) {
  const auto largest = largest_id(options);
  return fmt::format("neither a tokenizer nor --vocab-size is given: {} tokens are assumed, as GPT-2 has{}",
                     gpt_shape_of(options).vocab,
                     largest ? fmt::format("; the largest id of the data is {}", *largest) : "");
}

void check_tokenizer(const GptOptions& options, int64_t num_tokens) {
  const int64_t vocab = gpt_shape_of(options).vocab;
  if (options.mock_data || options.tokenizer_type == "NullTokenizer" || num_tokens <= vocab) return;
  throw UsageError(
      fmt::format("train: the tokenizer has {} tokens, the model {}", num_tokens, vocab),
      fmt::format("{}use --vocab-size {}", options.model.empty() ? "leave --vocab-size out, or " : "", num_tokens));
}

}  // namespace

std::vector<std::string> take_vocabulary(GptOptions& options, core::OptionSet& set) {
  const bool is_known = has_known_vocabulary(options);
  if (!has_tokenizer(options)) {
    if (is_known || options.mock_data || options.padded_vocab_size) return {};
    return {assumed_vocabulary_warning(options)};
  }
  const auto& [flag, file] = options.tokenizer_model.empty() ? std::pair("--vocab-file", options.vocab_file)
                                                             : std::pair("--tokenizer-model", options.tokenizer_model);
  if (options.dry_run && !missing_tokenizer_files(options).empty()) {
    if (is_known) return {};
    return {fmt::format("{} '{}' is not here: the vocabulary is taken to have {} tokens; a run takes the tokenizer's",
                        flag, file, gpt_shape_of(options).vocab)};
  }
  const int64_t num_tokens =
      data::open_text_tokenizer(
          {.model = options.tokenizer_model, .vocab_file = options.vocab_file, .merge_file = options.merge_file})
          ->vocab_size();
  if (!is_known) {
    options.vocab_size = num_tokens;
    set.mark_derived("vocab-size", flag);
  }
  check_tokenizer(options, num_tokens);  // and gpt_shape_of() refuses a --padded-vocab-size that is too small for it
  return {};
}

}  // namespace lockstep::tasks
