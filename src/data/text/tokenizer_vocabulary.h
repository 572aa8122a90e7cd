#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lockstep::data {

/// The symbols and merges of CLIP's byte-pair encoding. Ids: 256 bytes, the same 256 ending a word, one per merge in
/// the order of their rank (so the smaller id merges first), start and end of text.
class BpeVocabulary {
 public:
  static constexpr int32_t kNumBytes = 256;
  static constexpr int32_t kNumMerges = 48894;
  static constexpr int32_t kNumIds = 2 * kNumBytes + kNumMerges + 2;

  /// Throws DataError with the line of the first fault: missing or broken lines, unknown parts, a merge that is there
  /// twice.
  explicit BpeVocabulary(const std::filesystem::path& path);

  /// Appends the ids of one word (its bytes, not empty). Time grows as n log n.
  void append_word(std::string_view word, std::vector<int32_t>& ids) const;
  /// Bytes of a token, with "</w>" behind the last of a word.
  const std::string& token(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }

 private:
  void add_merge(std::string_view line);

  std::array<int32_t, kNumBytes> byte_ids_{};
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int32_t> symbols_;  ///< Of merges, as the file spells them; emptied at its end.
  std::unordered_map<uint64_t, int32_t> merges_;      ///< Left and right id -> merged id.
};

}  // namespace lockstep::data
