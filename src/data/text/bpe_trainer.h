#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/text/bpe_model.h"
#include "data/text/text_pattern.h"

namespace lockstep::data {

/// Counts the words of text, cut as a byte-level tokenizer will cut it. One thread; join the counters of several with
/// merge().
class WordCounter {
 public:
  /// `pattern` as Hugging Face writes it.
  explicit WordCounter(const std::string& pattern);
  void add(std::string_view text);
  void merge(const WordCounter& other);

  using Counts = std::unordered_map<std::string, int64_t, BpeModel::Hash, std::equal_to<>>;
  const Counts& counts() const { return counts_; }

 private:
  void add_word(std::string_view word, int64_t count);
  TextPattern pattern_;
  Counts counts_;
};

struct BpeTrainConfig {
  int64_t vocab_size = 32000;                    ///< Special tokens and the 256 bytes included.
  int64_t min_frequency = 2;                     ///< A pair that occurs less often is not merged.
  std::vector<std::string> special_tokens = {};  ///< Get the first ids.
  std::function<void(int64_t num_tokens)> on_progress = {};
};

/// Tokens by id, and merges by rank, spelled as in vocabulary files.
struct TrainedBpe {
  std::vector<std::string> special_tokens;
  std::vector<std::string> vocab;
  std::vector<std::pair<std::string, std::string>> merges;
};

/// Finds the merges that Hugging Face's trainer finds on these words: again and again the pair that occurs most often,
/// of equals the one with the smaller ids. May end below vocab_size when no pair is frequent enough. UsageError when
/// vocab_size leaves no place for the bytes and special tokens.
TrainedBpe train_bpe(const WordCounter::Counts& words, const BpeTrainConfig& config);

/// Writes tokenizer.json, vocab.json and merges.txt; `pattern` is the one that the words were counted with.
void write_trained_bpe(const TrainedBpe& trained, const std::string& pattern, const std::filesystem::path& folder);

}  // namespace lockstep::data
