#include "data/text/text_html.h"

#include <unicode/locid.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_map>

#include "core/characters.h"
#include "core/error.h"
#include "core/strings.h"
#include "data/text/text_tables.h"
#include "data/text/text_utf8.h"

namespace lockstep::data {
namespace {

constexpr size_t kMaxNameChars = 32, kMaxCertainChars = 24;
constexpr char32_t kTooLarge = 0x110000;

struct Reference {
  std::u32string text;
  bool may_lack_semicolon = false;
};
using ReferenceMap = std::unordered_map<std::string, Reference>;

std::u32string parse_code_points(std::string_view hex_joined) {
  std::u32string text;
  for (const std::string& hex : core::split(hex_joined, "+")) {
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
    LOCKSTEP_CHECK(error == std::errc{} && end == hex.data() + hex.size(), "table of character references: '{}'",
                   hex_joined);
    text.push_back(value);
  }
  return text;
}

ReferenceMap parse_references() {
  ReferenceMap references;
  std::string_view rest = kHtmlEntities;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(' '));
    const size_t mark = entry.find_first_of(":?");
    LOCKSTEP_CHECK(mark != std::string_view::npos, "table of character references: '{}'", entry);
    references.emplace(entry.substr(0, mark), Reference{parse_code_points(entry.substr(mark + 1)), entry[mark] == '?'});
    rest.remove_prefix(entry.size() + 1);
  }
  return references;
}

const ReferenceMap& references() {
  static const ReferenceMap map = parse_references();
  return map;
}

size_t longest_bare_name() {
  static const size_t length = [] {
    size_t longest = 0;
    for (const auto& [name, reference] : references()) {
      if (reference.may_lack_semicolon) longest = std::max(longest, name.size());
    }
    return longest;
  }();
  return length;
}

/// The longest name of two or more letters that may lack its semicolon and that `text` starts with.
const ReferenceMap::value_type* find_bare_prefix(std::u32string_view text) {
  std::string prefix;
  for (const char32_t c : text.substr(0, longest_bare_name())) {
    if (c >= 0x80) break;
    prefix.push_back(static_cast<char>(c));
  }
  for (; prefix.size() >= 2; prefix.pop_back()) {
    const auto found = references().find(prefix);
    if (found != references().end() && found->second.may_lack_semicolon) return &*found;
  }
  return nullptr;
}

std::optional<std::string> to_ascii(std::u32string_view text) {
  std::string ascii;
  for (const char32_t c : text) {
    if (c >= 0x80) return std::nullopt;
    ascii.push_back(static_cast<char>(c));
  }
  return ascii;
}

std::u32string to_upper(const std::u32string& text) {
  auto upper =
      icu::UnicodeString::fromUTF32(reinterpret_cast<const UChar32*>(text.data()), static_cast<int32_t>(text.size()));
  upper.toUpper(icu::Locale::getRoot());
  std::u32string out(static_cast<size_t>(upper.countChar32()), U'\0');
  UErrorCode status = U_ZERO_ERROR;
  upper.toUTF32(reinterpret_cast<UChar32*>(out.data()), static_cast<int32_t>(out.size()), status);
  return out;
}

/// Names that ftfy adds: references in lower case, written in capitals, unless HTML itself would resolve that (or a
/// part of it).
std::unordered_map<std::string, std::u32string> make_capital_references() {
  std::unordered_map<std::string, std::u32string> capitals;
  for (const auto& [name, reference] : references()) {
    if (name != core::to_lower_ascii(name)) continue;
    std::string upper = name;
    for (char& c : upper) c = (c >= 'a' && c <= 'z') ? static_cast<char>(c - 'a' + 'A') : c;
    const std::u32string wide(upper.begin(), upper.end());
    if (!references().contains(upper) && find_bare_prefix(wide) == nullptr)
      capitals.emplace(upper, to_upper(reference.text));
  }
  return capitals;
}

using core::is_digit;

bool is_hex(char32_t c) { return is_digit(c) || (c >= U'a' && c <= U'f') || (c >= U'A' && c <= U'F'); }

/// Text of the character number, by the table of exceptions in HTML 5.
std::u32string text_of_number(char32_t number) {
  if (number == 0 || (number >= 0xD800 && number <= 0xDFFF) || number >= kTooLarge) return U"\xFFFD";
  if (number == 0x0D) return U"\r";
  if (number >= 0x80 && number <= 0x9F) return std::u32string(1, kCodePages[0].upper_half[number - 0x80]);
  const bool is_control = (number < 0x20 && number != 0x09 && number != 0x0A && number != 0x0C) || number == 0x7F;
  const bool is_no_character = (number >= 0xFDD0 && number <= 0xFDEF) || (number & 0xFFFE) == 0xFFFE;
  if (is_control || is_no_character) return {};
  return std::u32string(1, number);
}

/// Resolves a number behind "&#" at `at`; on success moves `at` past it.
bool append_number(std::u32string_view text, size_t& at, std::u32string& out) {
  size_t i = at + 2;
  const bool hexadecimal = i < text.size() && (text[i] == U'x' || text[i] == U'X');
  if (hexadecimal) ++i;
  const size_t first = i;
  char32_t number = 0;
  for (; i < text.size() && (hexadecimal ? is_hex(text[i]) : is_digit(text[i])); ++i) {
    const char32_t c = text[i];
    const char32_t digit = is_digit(c) ? c - U'0' : (c | 0x20) - U'a' + 10;
    number = std::min<char32_t>(kTooLarge, number * (hexadecimal ? 16 : 10) + digit);
  }
  if (i == first) return false;
  if (i < text.size() && text[i] == U';') ++i;
  out += text_of_number(number);
  at = i;
  return true;
}

/// Resolves a name behind '&' at `at`; on success moves `at` past it.
bool append_named(std::u32string_view text, size_t& at, std::u32string& out) {
  constexpr std::u32string_view kEnds = U"\t\n\f <&#;";
  size_t end = at + 1;
  while (end < text.size() && end - at - 1 < kMaxNameChars && kEnds.find(text[end]) == std::u32string_view::npos) ++end;
  const std::u32string_view name = text.substr(at + 1, end - at - 1);
  if (name.empty()) return false;
  const bool closed = end < text.size() && text[end] == U';';
  if (const auto ascii = to_ascii(name)) {
    const auto found = references().find(*ascii);
    if (found != references().end() && (closed || found->second.may_lack_semicolon)) {
      out += found->second.text;
      at = end + (closed ? 1 : 0);
      return true;
    }
  }
  const auto* const prefix = find_bare_prefix(name);
  if (prefix == nullptr) return false;
  out += prefix->second.text;
  at += 1 + prefix->first.size();
  return true;
}

/// Resolves "&name;" or "&#number;" at `at` the certain way; on success moves `at` past it.
bool append_certain(std::u32string_view text, size_t& at, std::u32string& out) {
  static const auto capitals = make_capital_references();
  const bool is_number = at + 1 < text.size() && text[at + 1] == U'#';
  const size_t first = at + (is_number ? 2 : 1);
  size_t end = first;
  while (end < text.size() && end - first < kMaxCertainChars && (is_digit(text[end]) || is_ascii_letter(text[end])))
    ++end;
  if (end == first || end >= text.size() || text[end] != U';') return false;
  if (is_number) {
    const std::u32string resolved = unescape_html(text.substr(at, end + 1 - at));
    if (resolved.find(U';') != std::u32string::npos) return false;
    out += resolved;
  } else {
    const auto name = to_ascii(text.substr(first, end - first));
    if (const auto found = references().find(*name); found != references().end()) {
      out += found->second.text;
    } else if (const auto capital = capitals.find(*name); capital != capitals.end()) {
      out += capital->second;
    } else {
      return false;
    }
  }
  at = end + 1;
  return true;
}

template <typename Resolve> std::u32string replace_references(std::u32string_view text, Resolve resolve) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t next = std::min(text.find(U'&', i), text.size());
    out.append(text.substr(i, next - i));
    i = next;
    if (i < text.size() && !resolve(text, i, out)) out.push_back(text[i++]);
  }
  return out;
}

}  // namespace

std::u32string unescape_html(std::u32string_view text) {
  return replace_references(text, [](std::u32string_view whole, size_t& at, std::u32string& out) {
    const bool is_number = at + 1 < whole.size() && whole[at + 1] == U'#';
    return is_number ? append_number(whole, at, out) : append_named(whole, at, out);
  });
}

std::u32string unescape_certain_html(std::u32string_view text) { return replace_references(text, append_certain); }

}  // namespace lockstep::data
