#include "data/text/tokenizer.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "core/strings.h"
#include "data/text/text_pattern.h"
#include "data/text/text_utf8.h"
#include "data/text/tokenizer_vocabulary.h"
#include "data/text/word_cache.h"

namespace lockstep::data {
namespace {

constexpr std::string_view kStartText = "<start_of_text>", kEndText = "<end_of_text>";

/// A word: a marker, an English contraction, letters, one number, or anything else up to white space. White space is
/// spelled out because PCRE2's \s also holds U+180E. U+0345 belongs to no word, as in the reference, where ignoring
/// case makes it a letter's equal.
constexpr const char* kWordPattern =
    "<start_of_text>|<end_of_text>|'(?:[stmd]|re|ve|ll)|\\p{L}++|\\p{N}|[^\\t-\\r\\x{85}\\x{345}\\p{Z}\\p{L}\\p{N}]++";

}  // namespace

struct ClipTokenizer::State {
  State(const std::filesystem::path& path, TextCleaning how) : vocabulary(path), cleaning(how) {}

  void append_word(std::string_view word, std::vector<int32_t>& ids) {
    if (word == kStartText) return ids.push_back(kStartOfText);
    if (word == kEndText) return ids.push_back(kEndOfText);
    if (cache.append(word, ids)) return;
    const size_t begin = ids.size();
    vocabulary.append_word(word, ids);
    cache.remember(word, std::span(ids).subspan(begin));
  }

  /// Ids of the cleaned text; may stop once there are `enough`.
  std::vector<int32_t> ids(std::string_view utf8, size_t enough) {
    const std::string text = clean_text(utf8, cleaning);
    TextPattern::Scan words(pattern, text);
    std::vector<int32_t> ids;
    for (TextPattern::Match word; ids.size() < enough && words.next(word);)
      append_word(std::string_view(text).substr(word.begin, word.end - word.begin), ids);
    return ids;
  }

  const BpeVocabulary vocabulary;
  const TextCleaning cleaning;
  const TextPattern pattern{kWordPattern, TextPattern::Case::kIgnored, TextPattern::Input::kUtf8};
  WordCache cache;
};

static_assert(BpeVocabulary::kNumIds == ClipTokenizer::kVocabularySize);

ClipTokenizer::ClipTokenizer(const std::filesystem::path& vocabulary, TextCleaning cleaning)
    : state_(std::make_unique<State>(vocabulary, cleaning)) {}
ClipTokenizer::~ClipTokenizer() = default;

void ClipTokenizer::encode(std::string_view utf8, std::span<int32_t> out) const {
  LOCKSTEP_CHECK(out.size() >= 2, "context length {} leaves no place for start and end", out.size());
  const size_t places = out.size() - 2;
  const std::vector<int32_t> ids = state_->ids(utf8, places);
  const size_t kept = std::min(ids.size(), places);
  out[0] = kStartOfText;
  std::copy_n(ids.begin(), kept, out.begin() + 1);
  out[kept + 1] = kEndOfText;
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(kept) + 2, out.end(), kPadding);
}

std::vector<int32_t> ClipTokenizer::ids(std::string_view utf8) const {
  return state_->ids(utf8, std::numeric_limits<size_t>::max());
}

std::string ClipTokenizer::decode(std::span<const int32_t> ids) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (id < 0 || id >= kVocabularySize) {
      throw DataError(
          fmt::format("data: token id {} is outside the vocabulary, expected 0 to {}", id, kVocabularySize - 1));
    }
    bytes += state_->vocabulary.token(id);
  }
  return core::replace_all(repair_utf8(bytes), "</w>", " ");
}

}  // namespace lockstep::data
