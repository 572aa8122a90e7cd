#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/text_clean.h"

namespace lockstep::data {

/// The byte-pair encoding of CLIP; ids equal those of OpenCLIP 3.3.0's SimpleTokenizer.
/// All members are const and thread safe: workers share one tokenizer.
class ClipTokenizer {
 public:
  static constexpr int32_t kVocabularySize = 49408;
  static constexpr int32_t kStartOfText = 49406;
  static constexpr int32_t kEndOfText = 49407;
  static constexpr int32_t kPadding = 0;
  static constexpr size_t kDefaultContextLength = 77;

  /// Reads bpe_simple_vocab_16e6.txt, gzipped or plain. A damaged file throws DataError with the line, an unreadable
  /// one EnvironmentError.
  explicit ClipTokenizer(const std::filesystem::path& vocabulary, TextCleaning cleaning = TextCleaning::kLower);
  ~ClipTokenizer();
  ClipTokenizer(const ClipTokenizer&) = delete;
  ClipTokenizer& operator=(const ClipTokenizer&) = delete;

  /// Fills `out` (the context length, at least 2): start, ids, end, padding. Too many ids are cut, and the last place
  /// is then the end. Text that is not UTF-8 throws DataError.
  void encode(std::string_view utf8, std::span<int32_t> out) const;
  /// Ids of the cleaned text, without start and end, uncut.
  std::vector<int32_t> ids(std::string_view utf8) const;
  /// Text of ids, one space after each word; an id outside the vocabulary throws DataError.
  std::string decode(std::span<const int32_t> ids) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::data
