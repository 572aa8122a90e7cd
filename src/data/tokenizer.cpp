#include "data/tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "core/error.h"
#include "core/hash.h"
#include "core/strings.h"
#include "data/text_clean.h"
#include "data/text_utf8.h"
#include "data/tokenizer_vocabulary.h"

namespace lockstep::data {
namespace {

constexpr std::string_view kStartText = "<start_of_text>", kEndText = "<end_of_text>";

/// A word: a marker, an English contraction, letters, one number, or anything else up to white space. White space is spelled
/// out because PCRE2's \s also holds U+180E. U+0345 belongs to no word, as in the reference, where ignoring case makes it a
/// letter's equal.
constexpr const char* kWordPattern =
    "<start_of_text>|<end_of_text>|'(?:[stmd]|re|ve|ll)|\\p{L}++|\\p{N}|[^\\t-\\r\\x{85}\\x{345}\\p{Z}\\p{L}\\p{N}]++";

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

std::unique_ptr<pcre2_code, FreeCode> compile_word_pattern() {
  int status = 0;
  PCRE2_SIZE offset = 0;
  std::unique_ptr<pcre2_code, FreeCode> code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kWordPattern), PCRE2_ZERO_TERMINATED,
                                                           PCRE2_UTF | PCRE2_UCP | PCRE2_CASELESS, &status, &offset, nullptr));
  LOCKSTEP_CHECK(code != nullptr, "pcre2 error {} at {}", status, offset);
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // where there is no JIT, pcre2_match interprets
  return code;
}

/// Remembers the ids of words; bounded: a full part is emptied and begins anew.
class WordCache {
 public:
  bool append(const std::string& word, std::vector<int32_t>& ids) const {
    const Part& part = part_of(word);
    const std::shared_lock lock(part.mutex);
    const auto found = part.words.find(word);
    if (found == part.words.end()) return false;
    ids.insert(ids.end(), found->second.begin(), found->second.end());
    return true;
  }
  void remember(const std::string& word, std::span<const int32_t> ids) {
    if (word.size() > kMaxWordBytes) return;
    Part& part = part_of(word);
    const std::unique_lock lock(part.mutex);
    if (part.words.size() >= kMaxWordsPerPart) part.words.clear();
    part.words.try_emplace(word, ids.begin(), ids.end());
  }

 private:
  static constexpr size_t kNumParts = 32, kMaxWordsPerPart = 4096, kMaxWordBytes = 64;
  struct Part {
    mutable std::shared_mutex mutex;
    std::unordered_map<std::string, std::vector<int32_t>> words;
  };
  const Part& part_of(const std::string& word) const { return parts_[std::hash<std::string>{}(word) / 7 % kNumParts]; }
  Part& part_of(const std::string& word) { return parts_[std::hash<std::string>{}(word) / 7 % kNumParts]; }
  std::array<Part, kNumParts> parts_;
};

}  // namespace

struct ClipTokenizer::State {
  explicit State(const std::filesystem::path& path) : vocabulary(path), pattern(compile_word_pattern()) {}

  void append_word(const std::string& word, std::vector<int32_t>& ids) {
    if (word == kStartText) return ids.push_back(kStartOfText);
    if (word == kEndText) return ids.push_back(kEndOfText);
    if (cache.append(word, ids)) return;
    const size_t begin = ids.size();
    vocabulary.append_word(word, ids);
    cache.remember(word, std::span(ids).subspan(begin));
  }

  /// Ids of the cleaned text; may stop once there are `enough`.
  std::vector<int32_t> ids(std::string_view utf8, size_t enough) {
    const std::string text = clean_text(utf8);
    const std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create(1, nullptr));
    LOCKSTEP_CHECK(match != nullptr, "out of memory");
    std::vector<int32_t> ids;
    std::string word;
    for (size_t at = 0; at < text.size() && ids.size() < enough;) {
      const auto* const bytes = reinterpret_cast<PCRE2_SPTR>(text.data());
      const int status = pcre2_match(pattern.get(), bytes, text.size(), at, PCRE2_NO_UTF_CHECK, match.get(), nullptr);
      if (status == PCRE2_ERROR_NOMATCH) break;
      LOCKSTEP_CHECK(status > 0, "pcre2 error {} at byte {}", status, at);
      const PCRE2_SIZE* const bounds = pcre2_get_ovector_pointer(match.get());
      word.assign(text, bounds[0], bounds[1] - bounds[0]);
      append_word(word, ids);
      at = bounds[1];
    }
    return ids;
  }

  const BpeVocabulary vocabulary;
  const std::unique_ptr<pcre2_code, FreeCode> pattern;
  WordCache cache;
};

static_assert(BpeVocabulary::kNumIds == ClipTokenizer::kVocabularySize);

ClipTokenizer::ClipTokenizer(const std::filesystem::path& vocabulary) : state_(std::make_unique<State>(vocabulary)) {}
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
      throw DataError(fmt::format("data: token id {} is outside the vocabulary, expected 0 to {}", id, kVocabularySize - 1));
    }
    bytes += state_->vocabulary.token(id);
  }
  return core::replace_all(repair_utf8(bytes), "</w>", " ");
}

}  // namespace lockstep::data
