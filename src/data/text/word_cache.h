#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lockstep::data {

/// Remembers the ids of words; thread safe and bounded: a full part is emptied and begins anew.
class WordCache {
 public:
  /// Appends the word's ids where they are known.
  bool append(std::string_view word, std::vector<int32_t>& ids) const {
    if (word.size() > kMaxWordBytes) return false;
    const Part& part = parts_[part_of(word)];
    const std::shared_lock lock(part.mutex);
    const auto found = part.words.find(word);
    if (found == part.words.end()) return false;
    ids.insert(ids.end(), found->second.begin(), found->second.end());
    return true;
  }
  void remember(std::string_view word, std::span<const int32_t> ids) {
    if (word.size() > kMaxWordBytes) return;
    Part& part = parts_[part_of(word)];
    const std::unique_lock lock(part.mutex);
    if (part.words.size() >= kMaxWordsPerPart) part.words.clear();
    part.words.try_emplace(std::string(word), ids.begin(), ids.end());
  }

 private:
  static constexpr size_t kNumParts = 32, kMaxWordsPerPart = 4096, kMaxWordBytes = 64;
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view word) const { return std::hash<std::string_view>{}(word); }
  };
  struct Part {
    mutable std::shared_mutex mutex;
    std::unordered_map<std::string, std::vector<int32_t>, Hash, std::equal_to<>> words;
  };
  static size_t part_of(std::string_view word) { return Hash{}(word) / 7 % kNumParts; }
  std::array<Part, kNumParts> parts_;
};

}  // namespace lockstep::data
