#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/text/added_tokens.h"
#include "data/text/text_clean.h"
#include "data/text/text_encoder.h"

namespace lockstep::data {

/// BERT's word pieces without case (bert-base-uncased): ids equal those of Hugging Face's BertTokenizerFast. All
/// members are const and thread safe.
class WordPieces {
 public:
  /// `path`: a vocab.txt, one piece a line, or a folder that holds one. UsageError where there is none, DataError where
  /// it lacks [CLS], [SEP], [PAD] or [UNK] or is no UTF-8.
  explicit WordPieces(const std::filesystem::path& path);

  /// Ids of a text without start and end, uncut. DataError for text that is not UTF-8.
  std::vector<int32_t> ids(std::string_view utf8) const;

  int64_t vocab_size() const { return static_cast<int64_t>(id_of_.size()); }
  int32_t start_id() const { return start_id_; }
  int32_t end_id() const { return end_id_; }
  int32_t padding_id() const { return padding_id_; }

 private:
  void append_plain(std::string_view utf8, std::vector<int32_t>& ids) const;
  void append_word(const std::u32string& word, std::vector<int32_t>& ids) const;

  std::unordered_map<std::string, int32_t> id_of_;
  AddedTokenFinder special_;
  size_t longest_ = 0;  ///< Characters of the longest piece.
  int32_t start_id_ = 0, end_id_ = 0, padding_id_ = 0, unknown_id_ = 0;
};

/// Texts of CLIPA, as OpenCLIP 3.3.0 prepares them ("strip_sep_token"): cleaned, [CLS], pieces, then padding, also in
/// the place of [SEP]. Too many pieces are cut. UsageError where the vocabulary has more than `vocab_size` pieces.
TextEncoder make_word_piece_encoder(const std::filesystem::path& path, int64_t vocab_size,
                                    TextCleaning cleaning = TextCleaning::kWhiteSpace);

}  // namespace lockstep::data
