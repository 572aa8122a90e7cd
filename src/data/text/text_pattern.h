#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace lockstep::data {

/// A compiled regular expression over UTF-8 with Unicode classes (PCRE2). Thread safe.
class TextPattern {
 public:
  enum class Case { kSensitive, kIgnored };
  /// What a pattern may meet: text known to be UTF-8, or any bytes, where a broken sequence matches nothing and ends
  /// the text for what looks ahead of it.
  enum class Input { kUtf8, kBytes };

  /// A pattern that does not compile throws DataError with the place.
  TextPattern(const std::string& pattern, Case letters, Input input);
  ~TextPattern();
  TextPattern(TextPattern&&) noexcept;
  TextPattern& operator=(TextPattern&&) noexcept;

  struct Match {
    size_t begin = 0, end = 0;
  };
  /// Looks for matches in one text, from front to back.
  class Scan {
   public:
    Scan(const TextPattern& pattern, std::string_view text);
    ~Scan();
    Scan(const Scan&) = delete;
    Scan& operator=(const Scan&) = delete;
    /// The next match; false when there is none. An empty match is passed over.
    bool next(Match& match);

   private:
    struct State;
    std::unique_ptr<State> state_;
    const TextPattern& pattern_;
    std::string_view text_;
    size_t at_ = 0;
  };

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Rewrites a tokenizer's pattern (as Hugging Face writes it, for Oniguruma) so that PCRE2 means the same by it: \s and
/// \S are spelled out by Unicode's White_Space, \p{L} and \p{N} know Unicode 16. What the two libraries understand
/// differently (\w, \b, possessive {n,m}+ and the like) throws DataError that names it.
std::string pattern_from_oniguruma(std::string_view pattern);
/// A pattern that matches this text and nothing else.
std::string quote_pattern(std::string_view text);

}  // namespace lockstep::data
