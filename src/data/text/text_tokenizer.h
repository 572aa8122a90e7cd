#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// Text to token ids and back. All members are const and thread safe.
class TextTokenizer {
 public:
  virtual ~TextTokenizer() = default;
  /// Ids without special tokens around the text. DataError for text that the model cannot take.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  /// Bytes of the text; DataError for an id outside the vocabulary.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;
  virtual int64_t vocab_size() const = 0;  ///< One more than the largest id.
  /// Id that marks the end of a document, where the model has one.
  virtual std::optional<int32_t> eod() const = 0;
};

/// Which tokenizer; the fields follow Megatron's flags.
struct TokenizerFiles {
  /// tokenizer.json, a folder with one (or with vocab.json and merges.txt), or a SentencePiece .model.
  std::string model = {};
  std::string vocab_file = {};  ///< vocab.json, with merge_file; instead of model.
  std::string merge_file = {};
  std::string eod_token = {};  ///< "": <|endoftext|>, <|end_of_text|> or </s>, whichever is there.
  /// Of a SentencePiece model: characters without a piece are one unknown piece, not bytes.
  bool fuses_bytes = false;
};

/// UsageError where the files given name no tokenizer or contradict each other, or where eod_token is no token.
std::unique_ptr<TextTokenizer> open_text_tokenizer(const TokenizerFiles& files);

}  // namespace lockstep::data
