#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/text/bpe_trainer.h"
#include "data/text/text_tokenizer.h"

namespace lockstep::data {

/// Tokenizing JSON lines into one .bin/.idx pair per key.
struct TokenizeJob {
  std::vector<std::string> inputs = {};
  std::vector<std::string> keys = {"text"};
  std::string output_prefix = {};  ///< Files are called PREFIX_KEY_document.bin and .idx, as Megatron calls them.
  bool append_eod = false;
  int64_t num_threads = 1;
  std::function<void(int64_t num_documents, double done)> on_progress = {};  ///< `done`: part of the input's bytes.
};

struct TokenizedFile {
  std::string prefix;
  int64_t num_documents = 0;
  int64_t num_empty = 0;  ///< Documents without a token; they are kept as documents without a sequence.
  int64_t num_tokens = 0;
};

/// Documents keep the order of lines and files, whatever the number of threads. A damaged line throws DataError with
/// file:line, and nothing is written then. UsageError when an end-of-document token is wanted and the tokenizer has
/// none.
std::vector<TokenizedFile> tokenize_json_lines(const TokenizeJob& job, const TextTokenizer& tokenizer);

/// Counts the words of all texts of the inputs' keys; output_prefix and append_eod do not matter.
WordCounter count_json_lines(const TokenizeJob& job, const std::string& pattern);

}  // namespace lockstep::data
