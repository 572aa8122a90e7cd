#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/tokens/token_ids.h"

namespace lockstep::data {

/// Numbered sequences of token ids. All members are const and thread safe.
class TokenCorpus {
 public:
  virtual ~TokenCorpus() = default;
  virtual int64_t num_sequences() const = 0;
  virtual int32_t length(int64_t sequence) const = 0;
  /// Copies out.size() tokens of a sequence from `offset` on, which must lie inside it. DataError for ids outside the
  /// vocabulary.
  virtual void read(int64_t sequence, int64_t offset, std::span<int32_t> out) const = 0;
  virtual std::string name() const = 0;  ///< For messages.
};

/// A .bin/.idx pair, its ids tested if `check` says how.
std::unique_ptr<TokenCorpus> open_indexed_corpus(const std::filesystem::path& prefix, int64_t vocab_size,
                                                 const std::optional<TokenIdCheck>& check = std::nullopt);

/// Megatron's mock data: 100,000 sequences of 1 to 4,095 tokens that count 1, 2, 3, ... (modulo the vocabulary) and end
/// with `eod`.
std::unique_ptr<TokenCorpus> make_mock_corpus(int64_t vocab_size, int32_t eod);

}  // namespace lockstep::data
