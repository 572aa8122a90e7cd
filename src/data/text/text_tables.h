#pragma once
#include <cstdint>
#include <span>

namespace lockstep::data {

/// What a character is a sign of in text that was decoded with the wrong encoding (ftfy 6.3.1); bits of a mask.
enum TextClass : uint32_t {
  kCommon = 1u << 0,  ///< Everyday signs: no evidence by themselves.
  kC1 = 1u << 1,      ///< U+0080..U+009F.
  kBad = 1u << 2,     ///< Hardly ever typed on purpose.
  kLaw = 1u << 3,
  kCurrency = 1u << 4,
  kOpening = 1u << 5,  ///< Punctuation before a word.
  kClosing = 1u << 6,  ///< Punctuation after a word.
  kNumeric = 1u << 7,
  kFaces = 1u << 8,  ///< Letters of text faces.
  kUpperAccented = 1u << 9,
  kLowerAccented = 1u << 10,
  kUpperCommon = 1u << 11,  ///< Greek and Cyrillic capitals.
  kLowerCommon = 1u << 12,
  kBox = 1u << 13,    ///< Box drawing.
  kLead2 = 1u << 14,  ///< Looks like the first byte of a 2-byte UTF-8 sequence; kLead3 and kLead4 likewise.
  kLead3 = 1u << 15,
  kLead4 = 1u << 16,
  kTail = 1u << 17,        ///< Looks like a continuation byte.
  kStrictTail = 1u << 18,  ///< The same, without those that often stand for themselves.
};

struct TextClassRange {
  char16_t first, last;  ///< Inclusive.
  uint32_t classes;
};
/// Sorted and disjoint; characters in no range belong to no class.
std::span<const TextClassRange> text_class_ranges();

/// A single-byte encoding: what its bytes 0x80..0xff stand for.
struct CodePage {
  const char* name;
  bool is_sloppy;          ///< Holes stand for the code point of the same number, and byte 0x1a for U+FFFD.
  bool keeps_dash_spaces;  ///< Byte 0xd0 is a dash here, so a space after it is no lost 0xa0.
  char16_t upper_half[128];
};
inline constexpr int kNumCodePages = 9;
extern const CodePage kCodePages[kNumCodePages];  ///< In the order in which repairs are tried, after Latin-1.

/// The character references of HTML 5, each as: name, ':' (needs its semicolon) or '?' (may lack it), code points in
/// hexadecimal joined by '+', one space.
extern const char* const kHtmlEntities;

}  // namespace lockstep::data
