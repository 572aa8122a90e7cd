#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::data {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

/// One step of a strict UTF-8 decoder (no surrogates, no over-long forms, nothing above U+10FFFF).
struct Utf8Step {
  char32_t code_point;  ///< kReplacementCharacter when not ok.
  size_t num_bytes;     ///< At least 1; of a broken sequence, its longest part that could begin a good one.
  bool ok;
};
/// Decodes at `position`, which must lie inside `bytes`.
Utf8Step decode_utf8_step(std::string_view bytes, size_t position);

/// Offset of the first byte that is not UTF-8, or npos.
size_t find_invalid_utf8(std::string_view bytes);

/// False, with `text` unspecified, when `bytes` is not UTF-8.
bool decode_utf8(std::string_view bytes, std::u32string& text);
/// Appends one code point (not a surrogate).
void append_utf8(std::string& bytes, char32_t code_point);
std::string encode_utf8(std::u32string_view text);
/// Each broken sequence becomes one U+FFFD.
std::string repair_utf8(std::string_view bytes);

inline bool is_ascii_letter(char32_t c) { return (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z'); }
/// White space as Python's str methods see it: Unicode White_Space and U+001C..U+001F.
bool is_white_space(char32_t c);
std::u32string_view strip_white_space(std::u32string_view text);

}  // namespace lockstep::data
