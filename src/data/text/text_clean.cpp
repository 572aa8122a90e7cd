#include "data/text/text_clean.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "core/error.h"
#include "data/bad_sample_hint.h"
#include "data/text/text_html.h"
#include "data/text/text_mojibake.h"
#include "data/text/text_unicode.h"
#include "data/text/text_utf8.h"

namespace lockstep::data {
namespace {

constexpr size_t kMaxSegmentChars = 1'000'000;
constexpr int kMaxRounds = 1000;
constexpr size_t kMaxRepairChars = 10'000'000;  // over all rounds of all segments
constexpr size_t kMaxTextBytes = size_t{64} << 20;

using Expansions = std::unordered_map<char32_t, std::u32string>;

/// Latin ligatures and digraphs taken apart, characters of unusual width in their usual one (U+3000 included).
Expansions make_expansions() {
  Expansions map = {
      {0x0132, U"IJ"},      {0x0133, U"ij"}, {0x0149, U"\u02BCn"}, {0x01C4, U"D\u017D"}, {0x01C5, U"D\u017E"},
      {0x01C6, U"d\u017E"}, {0x01C7, U"LJ"}, {0x01C8, U"Lj"},      {0x01C9, U"lj"},      {0x01CA, U"NJ"},
      {0x01CB, U"Nj"},      {0x01CC, U"nj"}, {0x01F1, U"DZ"},      {0x01F2, U"Dz"},      {0x01F3, U"dz"},
      {0xFB00, U"ff"},      {0xFB01, U"fi"}, {0xFB02, U"fl"},      {0xFB03, U"ffi"},     {0xFB04, U"ffl"},
      {0xFB05, U"\u017Ft"}, {0xFB06, U"st"}, {0x3000, U" "},
  };
  for (char32_t c = 0xFF01; c < 0xFFF0; ++c) {
    const std::u32string whole(1, c);
    std::u32string usual = to_nfkc(whole);
    if (usual != whole) map.emplace(c, std::move(usual));
  }
  return map;
}

std::u32string expand_characters(const std::u32string& text) {
  static const Expansions expansions = make_expansions();
  std::u32string out;
  out.reserve(text.size());
  for (const char32_t c : text) {
    const auto found = c < 0x0132 ? expansions.end() : expansions.find(c);
    if (found == expansions.end()) {
      out.push_back(c);
    } else {
      out += found->second;
    }
  }
  return out;
}

char32_t straight_quote(char32_t c) {
  if (c == 0x02BC || (c >= 0x2018 && c <= 0x201B)) return U'\'';
  return c >= 0x201C && c <= 0x201F ? U'"' : c;
}

bool is_line_break(char32_t c) { return c == U'\r' || c == 0x85 || c == 0x2028 || c == 0x2029; }

/// Straight quotation marks, and line feeds for all line breaks.
void plain_quotes_and_lines(std::u32string& text) {
  size_t kept = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == U'\r' && i + 1 < text.size() && text[i + 1] == U'\n') continue;
    text[kept++] = is_line_break(text[i]) ? U'\n' : straight_quote(text[i]);
  }
  text.resize(kept);
}

/// Length of a terminal's escape sequence (escape, '[', numbers, letter) at `at`; 0 where none begins.
size_t escape_sequence(std::u32string_view text, size_t at) {
  if (text.substr(at, 2) != U"\x1B[") return 0;
  size_t end = at + 2;
  while (end < text.size() && (text[end] == U';' || is_decimal_digit(text[end]))) ++end;
  return end < text.size() && is_ascii_letter(text[end]) ? end + 1 - at : 0;
}

bool is_removed_control(char32_t c) {
  if (c < 0x20) return c != U'\t' && c != U'\n' && c != U'\f' && c != U'\r';
  return c == 0x7F || (c >= 0x206A && c <= 0x206F) || c == 0xFEFF || (c >= 0xFFF9 && c <= 0xFFFC);
}

void remove_escapes_and_controls(std::u32string& text) {
  size_t kept = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t escape = text[i] == 0x1B ? escape_sequence(text, i) : 0;
    if (escape == 0 && !is_removed_control(text[i])) text[kept++] = text[i];
    i += std::max<size_t>(escape, 1);
  }
  text.resize(kept);
}

/// All repairs of one segment, again and again until none changes anything. `num_chars` counts what all rounds of the
/// whole text went over: each segment gets one, and more while they are few.
std::u32string fix_segment(std::u32string text, bool unescape, size_t& num_chars) {
  for (int round = 0; round < kMaxRounds && (round == 0 || num_chars <= kMaxRepairChars); ++round) {
    num_chars += text.size();
    std::u32string fixed = unescape ? unescape_certain_html(text) : text;
    fixed = repair_encoding(std::move(fixed));
    replace_c1_controls(fixed);
    fixed = expand_characters(fixed);
    plain_quotes_and_lines(fixed);
    remove_escapes_and_controls(fixed);
    fixed = to_nfc(std::move(fixed));
    if (fixed == text) return text;
    text = std::move(fixed);
  }
  throw DataError(
      fmt::format("data: a text of {} characters still changes after {} characters of repair, at most {} rounds",
                  text.size(), num_chars, kMaxRounds),
      "HTML references are probably escaped over and over again; unescape the captions before training");
}

/// Printable ASCII and its white space, without '&': fix_text and unescaping leave it as it is.
bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 0x20 && c < 0x7F && c != '&') || c == '\t' || c == '\n' || c == '\f'; });
}

std::string collapse_plain(std::string_view text, bool is_lower) {
  std::string out;
  out.reserve(text.size());
  bool gap = false;
  for (const char c : text) {
    if (is_white_space(static_cast<char32_t>(c))) {
      gap = true;
      continue;
    }
    if (gap && !out.empty()) out.push_back(' ');
    gap = false;
    out.push_back(is_lower && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  }
  return out;
}

bool is_ascii_punctuation(char letter) {
  return (letter >= '!' && letter <= '/') || (letter >= ':' && letter <= '@') || (letter >= '[' && letter <= '`') ||
         (letter >= '{' && letter <= '~');
}

/// Of a text whose only white space is single spaces: "_" is one, other punctuation of ASCII goes.
std::string without_punctuation(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    if (is_ascii_punctuation(letter) && letter != '_') continue;
    const bool is_space = letter == '_' || letter == ' ';
    if (!is_space)
      out += letter;
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::u32string collapse_white_space(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (const char32_t c : strip_white_space(text)) {
    if (!is_white_space(c)) {
      out.push_back(c);
    } else if (out.back() != U' ') {
      out.push_back(U' ');
    }
  }
  return out;
}

}  // namespace

std::u32string fix_text(std::u32string_view text) {
  std::u32string out;
  size_t num_chars = 0;
  bool unescape = true;  // until the text shows that it is HTML itself
  while (!text.empty()) {
    const size_t line_end = text.find(U'\n');
    const size_t length =
        std::min(line_end == std::u32string_view::npos ? text.size() : line_end + 1, kMaxSegmentChars);
    const std::u32string_view segment = text.substr(0, length);
    if (segment.find(U'<') != std::u32string_view::npos) unescape = false;
    out += fix_segment(std::u32string(segment), unescape, num_chars);
    text.remove_prefix(length);
  }
  return out;
}

std::string clean_text(std::string_view utf8, TextCleaning cleaning) {
  if (cleaning == TextCleaning::kCanonical)  // lower case last: whether a sigma ends a word hangs on what follows it
    return to_lower_utf8(without_punctuation(clean_text(utf8, TextCleaning::kWhiteSpace)));
  if (utf8.size() > kMaxTextBytes) {
    throw DataError(fmt::format("data: text of {} bytes, expected at most {}", utf8.size(), kMaxTextBytes),
                    "check that this is a caption and not another file");
  }
  const bool is_lower = cleaning == TextCleaning::kLower;
  if (is_plain(utf8)) return collapse_plain(utf8, is_lower);
  std::u32string text;
  if (!decode_utf8(utf8, text)) {
    const size_t at = find_invalid_utf8(utf8);
    throw DataError(fmt::format("data: undecodable text at byte {}: value 0x{:02x}, expected UTF-8", at,
                                static_cast<unsigned char>(utf8[at])),
                    or_leave_out("convert the captions to UTF-8, for example with iconv"));
  }
  text = unescape_html(unescape_html(fix_text(text)));
  const std::string clean = encode_utf8(collapse_white_space(text));
  return is_lower ? to_lower_utf8(clean) : clean;
}

}  // namespace lockstep::data
