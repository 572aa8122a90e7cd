// The evidence for a wrong decoding: short sequences of character classes that hardly occur in intended text.
#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "data/text/text_mojibake.h"
#include "data/text/text_tables.h"
#include "data/text/text_unicode.h"
#include "data/text/text_utf8.h"

namespace lockstep::data {
namespace {

// Classes beyond those of the table, of every character.
constexpr uint32_t kSmallLetter = 1u << 20;    // a to z
constexpr uint32_t kCapitalLetter = 1u << 21;  // A to Z
constexpr uint32_t kSpace = 1u << 22;          // any white space
constexpr uint32_t kWord = 1u << 23;           // letter, number, underscore
constexpr uint32_t kNoLetter = 1u << 24;       // all but a to z, A to Z
constexpr uint32_t kNoLineEnd = 1u << 25;      // all but line feed
constexpr uint32_t kLatin = kSmallLetter | kCapitalLetter;
constexpr uint32_t kAccented = kUpperAccented | kLowerAccented;
constexpr uint32_t kSigns = kOpening | kClosing | kCurrency | kNumeric | kLaw;
constexpr uint32_t kAfterArabic = kCommon | kCurrency | kBad | kNumeric | kOpening;
constexpr uint32_t kAfterLead = kC1 | kBad | kOpening | kClosing | kCurrency;

/// One place of a rule: any of these classes or any of these characters.
struct Place {
  uint32_t classes = 0;
  std::u16string_view characters = {};
};
struct Rule {
  std::array<Place, 7> places;
  bool only_at_start = false;
  size_t size() const {
    return static_cast<size_t>(
        std::find_if(places.begin(), places.end(),
                     [](const Place& place) { return place.classes == 0 && place.characters.empty(); }) -
        places.begin());
  }
};

constexpr std::u16string_view kArabicLeads = u"\u00D8\u00D9", kArabicTails = u"\u0178\u0160\u00AE\u00B0\u00B5\u00BB";
constexpr std::u16string_view kWesternTails =
    u"\u20AC\u0153\u0160\u0161\u00A2\u00A3\u0178\u017E\u00A0\u00AD\u00AE\u00A9\u00B0\u00B7\u00BB\u2013\u2014\u00B4";
constexpr std::u16string_view kCyrillicLeads = u"\u0412\u0413\u0420\u0421", kGreekLeads = u"\u0392\u0393\u039E\u039F";
constexpr std::u16string_view kA =
    u"\u00C3\u00C2";  // capital A with tilde, with circumflex: what C3 and C2 are in Latin-1

const Rule kRules[] = {
    {{{{kC1}}}},
    // Classes side by side.
    {{{{kBad | kAccented | kBox | kSigns}, {kBad}}}},
    {{{{kLatin}, {kLowerCommon | kUpperCommon}, {kBad}}}},
    {{{{kBad}, {kAccented | kBox | kSigns}}}},
    {{{{kLowerAccented | kLowerCommon | kBox | kClosing | kCurrency | kNumeric}, {kUpperAccented}}}},
    {{{{kBox | kClosing | kCurrency | kNumeric}, {kLowerAccented}}}},
    {{{{kLowerAccented | kBox | kClosing}, {kCurrency}}}},
    {{{{kSpace}, {kUpperAccented}, {kCurrency}}}},
    {{{{kUpperAccented | kBox}, {kNumeric | kLaw}}}},
    {{{{kAccented | kBox | kCurrency | kClosing}, {kOpening}, {kNumeric}}}},
    {{{{kAccented | kCurrency | kNumeric | kBox | kLaw}, {kClosing}, {kOpening}}}},
    {{{{kCurrency | kNumeric | kBox}, {kOpening}}}},
    {{{{kSmallLetter}, {kUpperAccented}, {kOpening | kCurrency}}}},
    {{{{kBox}, {kFaces}}}},
    {{{{kAccented | kSigns}, {kBox}}}},
    {{{{kBox}, {kClosing}}}},
    {{{{kAccented}, {kOpening | kClosing}, {kWord}}}},
    // Windows 1252.
    {{{{0, u"\u0152\u0153"}, {kNoLetter}}}},
    {{{{kUpperAccented}, {0, u"\u00B0"}}}},
    {{{{0, u"\u00C2\u00C3\u00CE\u00D0"}, {kOpening | kClosing, kWesternTails}}}},
    {{{{0, u"\u00D7"}, {0, u"\u00B2\u00B3"}}}},
    {{{{0, kArabicLeads}, {kAfterArabic, kArabicTails}, {0, kArabicLeads}, {kAfterArabic, kArabicTails}}}},
    {{{{0, u"\u00E0"}, {0, u"\u00B2\u00B5\u00B9\u00BC\u00BD\u00BE"}}}},
    {{{{0, u"\u00C3"}, {0, u"\u00A0\u00A1"}}}},
    {{{{kSmallLetter}, {0, kA}, {0, u" "}}}},
    {{{{kSmallLetter}, {kSpace}, {0, kA}, {0, u" "}}}},
    {.places = {{{0, kA}, {0, u" "}}}, .only_at_start = true},
    {{{{kSmallLetter | kClosing, u".,?!"}, {0, u"\u00C2"}, {kOpening | kClosing, u" "}}}},
    // Mac Roman.
    {{{{0, u"\u221A"}, {0, u"\u00B1\u2202\u2020\u2260\u00AE\u2122\u00B4\u2264\u2265\u00A5\u00B5\u00F8"}}}},
    {{{{0, u"\u2248"}, {0, u"\u00B0\u00A2"}}}},
    {{{{0, u"\u201A"},
       {0, u"\u00C4"},
       {0, u"\u00EC\u00EE\u00EF\u00F2\u00F4\u00FA\u00F9\u00FB\u2020\u00B0\u00A2\u03C0"}}}},
    {{{{0, u"\u201A"}, {0, u"\u00E2\u00F3"}, {0, u"\u00E0\u00E4\u00B0\u00EA"}}}},
    // Windows 1251.
    {{{{0, u"\u0432"}, {0, u"\u0402"}}}},
    {{{{0, kCyrillicLeads}, {kAfterLead, u"\u00B0\u00B5"}, {0, kCyrillicLeads}}}},
    {{{{0, u"\u0413"}, {0, u"\u045E"}, {0, u"\u0412"}, {0, u"\u0402"}, {0, u"\u0412"}, {kNoLineEnd}, {kLatin, u" "}}}},
    // Windows 1253 and 1257.
    {{{{0, u"\u03B2"}, {0, u"\u20AC"}, {0, u"\u2122\u00A0\u0386\u00AD\u00AE\u00B0"}}}},
    {{{{0, kGreekLeads}, {kAfterLead, u"\u00B0"}, {0, kGreekLeads}}}},
    {{{{0, u"\u0101"}, {0, u"\u20AC"}}}},
};

uint32_t all_classes(char32_t c) {
  uint32_t classes = text_classes(c);
  if (c >= U'a' && c <= U'z') classes |= kSmallLetter;
  if (c >= U'A' && c <= U'Z') classes |= kCapitalLetter;
  if ((classes & kLatin) == 0) classes |= kNoLetter;
  if (c != U'\n') classes |= kNoLineEnd;
  if (is_white_space(c)) classes |= kSpace;
  if (is_word_character(c)) classes |= kWord;
  return classes;
}

bool fits(const Place& place, char32_t c, uint32_t classes) {
  if ((classes & place.classes) != 0) return true;
  return c <= 0xFFFF && place.characters.find(static_cast<char16_t>(c)) != std::u16string_view::npos;
}

bool rule_matches(const Rule& rule, std::u32string_view text, const std::vector<uint32_t>& classes, size_t at) {
  const size_t size = rule.size();
  if (at + size > text.size() || (rule.only_at_start && at != 0)) return false;
  for (size_t i = 0; i < size; ++i) {
    if (!fits(rule.places[i], text[at + i], classes[at + i])) return false;
  }
  return true;
}

}  // namespace

bool looks_misdecoded(std::u32string_view text) {
  const auto is_ascii = [](char32_t c) { return c < 0x80; };
  if (std::all_of(text.begin(), text.end(), is_ascii)) return false;
  std::vector<uint32_t> classes(text.size());
  std::transform(text.begin(), text.end(), classes.begin(), all_classes);
  for (size_t at = 0; at < text.size(); ++at) {
    // Every rule wants a character outside ASCII among its first three.
    const std::u32string_view begin = text.substr(at, 3);
    if (std::all_of(begin.begin(), begin.end(), is_ascii)) continue;
    const auto matches = [&](const Rule& rule) { return rule_matches(rule, text, classes, at); };
    if (std::any_of(std::begin(kRules), std::end(kRules), matches)) return true;
  }
  return false;
}

}  // namespace lockstep::data
