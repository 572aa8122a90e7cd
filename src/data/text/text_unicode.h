#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::data {

/// The TextClass mask of a character.
uint32_t text_classes(char32_t c);
/// A letter or number of any script, or the underscore.
bool is_word_character(char32_t c);
/// A decimal digit of any script.
bool is_decimal_digit(char32_t c);
/// A control, format or private character.
bool is_control(char32_t c);
/// ASCII's signs, and punctuation of any script.
bool is_punctuation(char32_t c);
/// A mark that takes no place of its own: an accent.
bool is_nonspacing_mark(char32_t c);
/// Lower case of one character.
char32_t to_lower(char32_t c);
/// Canonical decomposition.
std::u32string to_nfd(std::u32string text);
/// Canonical composition.
std::u32string to_nfc(std::u32string text);
/// Compatibility composition.
std::u32string to_nfkc(const std::u32string& text);
/// Lower case with the Unicode rules for all languages (final sigma, dotted capital I).
std::string to_lower_utf8(std::string_view utf8);

}  // namespace lockstep::data
