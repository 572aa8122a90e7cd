#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/text/bpe_model.h"

namespace lockstep::data {

/// Finds added tokens in text as Hugging Face does: leftmost first, of several at one place the longest.
class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  struct Piece {
    std::string_view text;
    int32_t id = -1;  ///< -1: plain text.
  };
  /// The text in pieces, in order and without empty ones; the white space that a token strips belongs to its piece.
  std::vector<Piece> split(std::string_view text) const;

 private:
  const AddedToken* longest_at(std::string_view text, size_t at) const;
  std::array<std::vector<size_t>, 256> by_first_byte_;  ///< Indices into tokens_, longest first.
  std::vector<AddedToken> tokens_;
};

}  // namespace lockstep::data
