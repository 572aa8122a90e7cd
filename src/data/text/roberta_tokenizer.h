#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/byte_bpe.h"
#include "data/text/text_clean.h"

namespace lockstep::data {

/// RoBERTa's tokenizer as the text towers of CLAP use it; ids equal those of Hugging Face's RobertaTokenizer with
/// padding="max_length" and truncation. All members are const and thread safe.
class RobertaTokenizer {
 public:
  static constexpr size_t kDefaultContextLength = 77;

  /// `path`: a tokenizer.json, or a folder that holds one, or else vocab.json and merges.txt. Throws UsageError where
  /// there is none, DataError when it is damaged or lacks <s>, </s> or <pad>. `cleaning`: of texts, before they are
  /// tokenized (OpenCLIP); none for Hugging Face and LAION CLAP.
  explicit RobertaTokenizer(const std::filesystem::path& path, std::optional<TextCleaning> cleaning = std::nullopt);

  /// Fills `out` (the context length, at least 2): <s>, ids, </s>, padding. Too many ids are cut at the end; </s>
  /// stays. Returns how many places are no padding.
  size_t encode(std::string_view text, std::span<int32_t> out) const;
  /// Ids of the text without start and end, uncut.
  std::vector<int32_t> ids(std::string_view text) const;
  /// Text of ids; <s>, </s>, <pad> and other special tokens are left out, broken UTF-8 becomes U+FFFD.
  std::string decode(std::span<const int32_t> ids) const;

  int32_t padding_id() const { return padding_id_; }
  int64_t vocab_size() const { return bpe_.vocab_size(); }

 private:
  std::string cleaned(std::string_view text) const;

  ByteBpe bpe_;
  std::optional<TextCleaning> cleaning_;
  int32_t start_id_ = 0, end_id_ = 0, padding_id_ = 0;
};

}  // namespace lockstep::data
