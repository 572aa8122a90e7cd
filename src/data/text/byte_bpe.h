#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/bpe_model.h"

namespace lockstep::data {

/// Byte-level BPE of GPT-2, RoBERTa, Llama 3 and the like; ids equal those of Hugging Face's tokenizers without special
/// tokens around the text. Bytes that are not UTF-8 become the tokens of those bytes, so decode(encode(x)) == x for any
/// x where the model neither normalises nor adds a space. All members are const and thread safe; workers share one
/// object.
class ByteBpe {
 public:
  explicit ByteBpe(BpeModel model);
  ~ByteBpe();
  ByteBpe(ByteBpe&&) noexcept;
  ByteBpe& operator=(ByteBpe&&) noexcept;

  /// Ids of the text. Added tokens found in it become their ids. A byte for which the model has no token throws
  /// DataError.
  std::vector<int32_t> encode(std::string_view text) const;
  /// Appends the ids to `ids`; may stop once `enough` have been appended.
  void encode_into(std::string_view text, std::vector<int32_t>& ids, size_t enough) const;
  /// Bytes of the tokens. An id outside the vocabulary throws DataError.
  std::string decode(std::span<const int32_t> ids, bool skips_special = false) const;

  /// One more than the largest id.
  int64_t vocab_size() const;
  /// Id of a token as its file spells it ("<|endoftext|>").
  std::optional<int32_t> token_id(std::string_view name) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::data
