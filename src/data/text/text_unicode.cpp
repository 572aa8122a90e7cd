#include "data/text/text_unicode.h"

#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>

#include "core/error.h"
#include "data/text/text_tables.h"

namespace lockstep::data {
namespace {

void check_icu(UErrorCode status) {
  if (U_FAILURE(status))
    throw EnvironmentError(fmt::format("data: the Unicode library (ICU) failed: {}", u_errorName(status)));
}

std::u32string normalise(const icu::Normalizer2* form, std::u32string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  const auto* const chars = reinterpret_cast<const UChar32*>(text.data());
  const auto input = icu::UnicodeString::fromUTF32(chars, static_cast<int32_t>(text.size()));
  const icu::UnicodeString normal = form->normalize(input, status);
  check_icu(status);
  std::u32string out(static_cast<size_t>(normal.countChar32()), U'\0');
  normal.toUTF32(reinterpret_cast<UChar32*>(out.data()), static_cast<int32_t>(out.size()), status);
  check_icu(status);
  return out;
}

}  // namespace

uint32_t text_classes(char32_t c) {
  const auto ranges = text_class_ranges();
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), c,
                                      [](char32_t value, const TextClassRange& range) { return value < range.first; });
  if (after == ranges.begin()) return 0;
  const TextClassRange& range = *(after - 1);
  return c <= range.last ? range.classes : 0;
}

bool is_word_character(char32_t c) {
  return c == U'_' || (U_GET_GC_MASK(static_cast<UChar32>(c)) & (U_GC_L_MASK | U_GC_N_MASK)) != 0;
}

bool is_decimal_digit(char32_t c) { return u_isdigit(static_cast<UChar32>(c)) != 0; }

bool is_control(char32_t c) {
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK | U_GC_CS_MASK)) != 0;
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) return u_isgraph(static_cast<UChar32>(c)) != 0 && u_isalnum(static_cast<UChar32>(c)) == 0;
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_P_MASK) != 0;
}

bool is_nonspacing_mark(char32_t c) { return u_charType(static_cast<UChar32>(c)) == U_NON_SPACING_MARK; }

char32_t to_lower(char32_t c) { return static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))); }

std::u32string to_nfd(std::u32string text) {
  if (std::all_of(text.begin(), text.end(), [](char32_t c) { return c < 0xC0; })) return text;
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* const form = icu::Normalizer2::getNFDInstance(status);
  check_icu(status);
  return normalise(form, text);
}

std::u32string to_nfc(std::u32string text) {
  constexpr char32_t kFirstThatMayChange = 0x300;  // all below are composed and combine with nothing before them
  if (std::all_of(text.begin(), text.end(), [](char32_t c) { return c < kFirstThatMayChange; })) return text;
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* const form = icu::Normalizer2::getNFCInstance(status);
  check_icu(status);
  return normalise(form, text);
}

std::u32string to_nfkc(const std::u32string& text) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* const form = icu::Normalizer2::getNFKCInstance(status);
  check_icu(status);
  return normalise(form, text);
}

std::string to_lower_utf8(std::string_view utf8) {
  std::string lower;
  icu::StringByteSink<std::string> sink(&lower, static_cast<int32_t>(utf8.size()));
  UErrorCode status = U_ZERO_ERROR;
  icu::CaseMap::utf8ToLower("", 0, icu::StringPiece(utf8.data(), static_cast<int32_t>(utf8.size())), sink, nullptr,
                            status);
  check_icu(status);
  return lower;
}

}  // namespace lockstep::data
