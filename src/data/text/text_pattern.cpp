#include "data/text/text_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cctype>

#include "core/error.h"
#include "data/text/text_utf8.h"

namespace lockstep::data {
namespace {

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};

std::string error_text(int status) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(status, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

// Members of a class that stand for Unicode's White_Space. PCRE2's own \s also holds U+180E.
constexpr std::string_view kSpaceMembers = "\\t-\\r\\x{85}\\p{Z}";

// What became a letter or number between PCRE2's Unicode (14 in version 10.42) and that of the reference (16); found
// with ref/make_bpe_goldens.py (classes.jsonl.gz).
constexpr std::string_view kNewLetters =
    "\\x{1c89}-\\x{1c8a}\\x{a7cb}-\\x{a7cd}\\x{a7da}-\\x{a7dc}\\x{105c0}-\\x{105f3}\\x{10d4a}-\\x{10d65}\\x{10d6f}-\\x{"
    "10d85}\\x{10ec2}-\\x{10ec4}"
    "\\x{1123f}-\\x{11240}\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}\\x{11390}-\\x{113b5}\\x{113b7}\\x{113d1}\\x{113d3}"
    "\\x{11bc0}-\\x{11be0}"
    "\\x{11f02}\\x{11f04}-\\x{11f10}\\x{11f12}-\\x{11f33}\\x{1342f}\\x{13441}-\\x{13446}\\x{13460}-\\x{143fa}\\x{16100}"
    "-\\x{1611d}"
    "\\x{16d40}-\\x{16d6c}\\x{18cff}\\x{1b132}\\x{1b155}\\x{1df25}-\\x{1df2a}\\x{1e030}-\\x{1e06d}\\x{1e4d0}-\\x{1e4eb}"
    "\\x{1e5d0}-\\x{1e5ed}"
    "\\x{1e5f0}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}";
constexpr std::string_view kNewNumbers =
    "\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{11f50}-\\x{11f59}\\x{16130}-\\x{16139}\\x{"
    "16d70}-\\x{16d79}"
    "\\x{1ccf0}-\\x{1ccf9}\\x{1d2c0}-\\x{1d2d3}\\x{1e4f0}-\\x{1e4f9}\\x{1e5f1}-\\x{1e5fa}";

}  // namespace

struct TextPattern::State {
  std::unique_ptr<pcre2_code, Free> code;
  uint32_t match_flags = 0;
};

TextPattern::TextPattern(const std::string& pattern, Case letters, Input input) : state_(std::make_unique<State>()) {
  const std::unique_ptr<pcre2_compile_context, Free> context(pcre2_compile_context_create(nullptr));
  LOCKSTEP_CHECK(context != nullptr, "out of memory");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  uint32_t flags = PCRE2_UTF | PCRE2_UCP;
  if (letters == Case::kIgnored) flags |= PCRE2_CASELESS;
  if (input == Input::kBytes) flags |= PCRE2_MATCH_INVALID_UTF;
  if (input == Input::kUtf8) state_->match_flags = PCRE2_NO_UTF_CHECK;
  int status = 0;
  PCRE2_SIZE offset = 0;
  state_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), flags, &status,
                                   &offset, context.get()));
  if (state_->code == nullptr)
    throw DataError(
        fmt::format("data: the pattern '{}' cannot be used: {} at byte {}", pattern, error_text(status), offset));
  pcre2_jit_compile(state_->code.get(), PCRE2_JIT_COMPLETE);  // where there is no JIT, pcre2_match interprets
}

TextPattern::~TextPattern() = default;
TextPattern::TextPattern(TextPattern&&) noexcept = default;
TextPattern& TextPattern::operator=(TextPattern&&) noexcept = default;

struct TextPattern::Scan::State {
  std::unique_ptr<pcre2_match_data, Free> match;
};

TextPattern::Scan::Scan(const TextPattern& pattern, std::string_view text)
    : state_(std::make_unique<State>()), pattern_(pattern), text_(text) {
  state_->match.reset(pcre2_match_data_create(1, nullptr));
  LOCKSTEP_CHECK(state_->match != nullptr, "out of memory");
}
TextPattern::Scan::~Scan() = default;

bool TextPattern::Scan::next(Match& match) {
  while (at_ < text_.size()) {
    const int status = pcre2_match(pattern_.state_->code.get(), reinterpret_cast<PCRE2_SPTR>(text_.data()),
                                   text_.size(), at_, pattern_.state_->match_flags, state_->match.get(), nullptr);
    if (status == PCRE2_ERROR_NOMATCH) break;
    if (status == PCRE2_ERROR_MATCHLIMIT || status == PCRE2_ERROR_DEPTHLIMIT || status == PCRE2_ERROR_HEAPLIMIT ||
        status == PCRE2_ERROR_JIT_STACKLIMIT)
      throw DataError(fmt::format("data: a text of {} bytes is too much for the tokenizer's pattern at byte {}: {}",
                                  text_.size(), at_, error_text(status)),
                      "cut the text into shorter documents");
    LOCKSTEP_CHECK(status >= 0, "pcre2 error {} at byte {}: {}", status, at_, error_text(status));
    const PCRE2_SIZE* const bounds = pcre2_get_ovector_pointer(state_->match.get());
    match = {bounds[0], bounds[1]};
    at_ = match.end;
    if (match.begin < match.end) return true;
    if (at_ < text_.size()) at_ += decode_utf8_step(text_, at_).num_bytes;
  }
  at_ = text_.size();
  return false;
}

std::string pattern_from_oniguruma(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  const auto refuse = [&](std::string_view what, size_t at) {
    throw DataError(
        fmt::format("data: the tokenizer's pattern '{}' uses {} at byte {}, which is not supported", pattern, what, at),
        "Unicode classes (\\p{..}), \\s, \\d, \\r, \\n, groups, look-ahead and repetition are");
  };
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      if (++i == pattern.size()) refuse("a backslash that ends it", i - 1);
      const char escaped = pattern[i];
      const std::string_view named = pattern.substr(i, 4);
      const bool is_letter = (escaped >= 'a' && escaped <= 'z') || (escaped >= 'A' && escaped <= 'Z');
      if (escaped == 's') {
        out += in_class ? std::string(kSpaceMembers) : fmt::format("[{}]", kSpaceMembers);
      } else if (escaped == 'S' && !in_class) {
        out += fmt::format("[^{}]", kSpaceMembers);
      } else if (named == "p{L}" || named == "p{N}") {
        i += 3;
        const std::string members = fmt::format("\\{}{}", named, named == "p{L}" ? kNewLetters : kNewNumbers);
        out += in_class ? members : "[" + members + "]";
      } else if (!is_letter || std::string_view("pPdrntfx").find(escaped) != std::string_view::npos) {
        out += c;
        out += escaped;
      } else {
        refuse(fmt::format("\\{}", escaped), i - 1);
      }
    } else if (in_class) {
      if (c == '[' || (c == '&' && pattern.substr(i, 2) == "&&")) refuse("a class inside a class", i);
      in_class = c != ']';
      out += c;
    } else {
      if (c == '^' || c == '$') refuse(fmt::format("the anchor {}", c), i);
      if (c == '}' && pattern.substr(i, 2) == "}+") refuse("a repeated repetition '}+'", i);
      out += c;
      if (c == '[') {
        in_class = true;
        if (i + 1 < pattern.size() && pattern[i + 1] == '^') out += pattern[++i];
        if (i + 1 < pattern.size() && pattern[i + 1] == ']') refuse("a class that begins with ']'", i + 1);
      }
    }
  }
  return out;
}

std::string quote_pattern(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool is_sign = static_cast<unsigned char>(c) < 0x80 && std::isalnum(static_cast<unsigned char>(c)) == 0;
    if (is_sign) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace lockstep::data
