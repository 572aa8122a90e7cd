#include "data/text/text_mojibake.h"

#include <algorithm>
#include <array>
#include <optional>

#include "data/text/text_tables.h"
#include "data/text/text_unicode.h"
#include "data/text/text_utf8.h"

namespace lockstep::data {
namespace {

constexpr unsigned char kLost = 0x1A;  // how a sloppy code page writes U+FFFD
constexpr unsigned char kNone = 0;     // read behind the end; part of no sequence
constexpr size_t kLatin1 = 0, kNumEncodings = kNumCodePages + 1;

unsigned char byte_at(std::string_view bytes, size_t i) { return static_cast<unsigned char>(bytes[i]); }
bool is_between(unsigned char byte, int low, int high) { return byte >= low && byte <= high; }
bool is_tail(unsigned char byte) { return is_between(byte, 0x80, 0xBF); }
bool is_c1(char32_t c) { return c >= 0x80 && c <= 0x9F; }
bool is_ascii_text(std::u32string_view text) {
  return std::all_of(text.begin(), text.end(), [](char32_t c) { return c < 0x80; });
}

/// Writes the text in Latin-1 (number 0) or a code page (number - 1); nothing when it has other characters.
std::optional<std::string> encode_bytes(std::u32string_view text, size_t encoding) {
  std::string bytes;
  bytes.reserve(text.size());
  const CodePage* const page = encoding == kLatin1 ? nullptr : &kCodePages[encoding - 1];
  for (const char32_t c : text) {
    const bool writes_lost = page != nullptr && page->is_sloppy;
    if (c < 0x80 && !(writes_lost && c == kLost)) {
      bytes.push_back(static_cast<char>(c));
    } else if (writes_lost && c == kReplacementCharacter) {
      bytes.push_back(static_cast<char>(kLost));
    } else if (page == nullptr && c <= 0xFF) {
      bytes.push_back(static_cast<char>(c));
    } else if (page != nullptr && c > 0x7F && c <= 0xFFFF) {
      const char16_t* const end = page->upper_half + 128;
      const char16_t* const found = std::find(page->upper_half, end, static_cast<char16_t>(c));
      if (found == end) return std::nullopt;
      bytes.push_back(static_cast<char>(0x80 + (found - page->upper_half)));
    } else {
      return std::nullopt;
    }
  }
  return bytes;
}

/// Length of a UTF-8 sequence at `at` in which exactly one 0xa0 has become a space, if it is one of those worth
/// repairing; else 0.
size_t altered_sequence(std::string_view bytes, size_t at) {
  const unsigned char lead = byte_at(bytes, at);
  const auto next = [&](size_t i) { return at + i < bytes.size() ? byte_at(bytes, at + i) : kNone; };
  const auto is_space = [&](size_t i) { return next(i) == ' '; };
  const auto is_usual_tail = [&](size_t i) { return is_tail(next(i)) && next(i) != 0x85 && next(i) != 0xA0; };
  constexpr std::string_view kLeadsOfTwo = "\xC2\xC3\xC5\xCE\xD0\xD9";
  if (kLeadsOfTwo.find(bytes[at]) != std::string_view::npos) return is_space(1) ? 2 : 0;
  if (is_between(lead, 0xE0, 0xE3)) {
    if (lead >= 0xE2 && is_space(1) && is_usual_tail(2)) return 3;
    return is_usual_tail(1) && is_space(2) ? 3 : 0;
  }
  if (lead != 0xF0) return 0;
  int spaces = 0;
  for (size_t i = 1; i <= 3; ++i) {
    if (is_space(i)) {
      ++spaces;
    } else if (!is_tail(next(i))) {
      return 0;
    }
  }
  return spaces == 1 ? 4 : 0;
}

/// An "a" with grave accent that was a word of its own, or ended one: its lost 0xa0 comes back and the space stays. Not
/// before the Portuguese words that begin with it.
std::string restore_grave_words(std::string_view bytes) {
  constexpr std::string_view kJoined[] = {" ", "quele", "quela", "quilo", "s "};
  std::string out;
  for (size_t i = 0; i < bytes.size(); ++i) {
    out.push_back(bytes[i]);
    if (bytes.substr(i, 2) != "\xC3 ") continue;
    const std::string_view rest = bytes.substr(i + 2);
    const auto follows = [&](std::string_view word) { return rest.substr(0, word.size()) == word; };
    if (std::none_of(std::begin(kJoined), std::end(kJoined), follows)) out.push_back('\xA0');
  }
  return out;
}

/// Puts back 0xa0 where a space has taken its place inside UTF-8.
std::string restore_nonbreaking_spaces(std::string_view bytes) {
  std::string out = restore_grave_words(bytes);
  for (size_t i = 0; i < out.size();) {
    const size_t length = altered_sequence(out, i);
    std::replace(out.data() + i, out.data() + i + length, ' ', '\xA0');
    i += std::max<size_t>(length, 1);
  }
  return out;
}

/// Length of a UTF-8 or CESU-8 sequence at `at` some of whose later bytes are lost (written 0x1a, or at most once '?');
/// else 0.
size_t lossy_sequence(std::string_view bytes, size_t at) {
  const unsigned char lead = byte_at(bytes, at);
  const auto next = [&](size_t i) { return at + i < bytes.size() ? byte_at(bytes, at + i) : kNone; };
  const auto is_gap = [&](size_t i) { return next(i) == kLost || next(i) == '?'; };
  const auto is_tail_or_lost = [&](size_t i) { return next(i) == kLost || is_tail(next(i)); };
  // One gap of either spelling; all other places hold a continuation byte or a lost one.
  const auto has_gap = [&](size_t length) {
    bool gap = false;
    size_t question_marks = 0;
    for (size_t i = 1; i < length; ++i) {
      if (!is_gap(i) && !is_tail_or_lost(i)) return false;
      gap = gap || is_gap(i);
      question_marks += next(i) == '?' ? 1 : 0;
    }
    return gap && question_marks <= 1;
  };
  if (is_between(lead, 0xC2, 0xDF)) return next(1) == kLost || (lead <= 0xC3 && next(1) == '?') ? 2 : 0;
  if (lead == 0xED && is_between(next(1), 0xA0, 0xAF) && next(3) == 0xED && is_between(next(4), 0xB0, 0xBF)) {
    const auto is_last = [&](size_t i) { return is_gap(i) || is_tail(next(i)); };
    if (is_last(2) && is_last(5) && (is_gap(2) || is_gap(5))) return 6;
  }
  if (is_between(lead, 0xE0, 0xEF)) return has_gap(3) ? 3 : 0;
  if (is_between(lead, 0xF0, 0xF4)) return has_gap(4) ? 4 : 0;
  return lead == kLost ? 1 : 0;
}

std::string replace_lossy_sequences(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    const size_t length = lossy_sequence(bytes, i);
    if (length == 0) {
      out.push_back(bytes[i++]);
    } else {
      append_utf8(out, kReplacementCharacter);
      i += length;
    }
  }
  return out;
}

/// Length of a variant sequence at `at`: Java's zero (2) or a CESU-8 pair (6); else 0. ftfy also takes a final line
/// feed for the last byte of either.
size_t variant_sequence(std::string_view bytes, size_t at) {
  const size_t left = bytes.size() - at;
  const auto next = [&](size_t i) { return byte_at(bytes, at + i); };
  const auto is_final_line_feed = [&](size_t i) { return i + 1 == left && next(i) == '\n'; };
  if (left >= 2 && next(0) == 0xC0 && (next(1) == 0x80 || is_final_line_feed(1))) return 2;
  const bool pair = left >= 6 && next(0) == 0xED && is_between(next(1), 0xA0, 0xAF) && is_tail(next(2)) &&
                    next(3) == 0xED && is_between(next(4), 0xB0, 0xBF) && (is_tail(next(5)) || is_final_line_feed(5));
  return pair ? 6 : 0;
}

/// UTF-8 that may hold Java's zero (C0 80) and CESU-8 (characters as pairs of surrogates).
std::optional<std::u32string> decode_utf8_variants(std::string_view bytes) {
  std::u32string text;
  for (size_t i = 0; i < bytes.size();) {
    const size_t length = variant_sequence(bytes, i);
    if (length == 2) {
      text.push_back(U'\0');
    } else if (length == 6) {
      const auto bits = [&](size_t at, unsigned mask) { return static_cast<char32_t>(byte_at(bytes, i + at) & mask); };
      text.push_back(0x10000 + (bits(1, 0x0F) << 16) + (bits(2, 0x3F) << 10) + (bits(4, 0x0F) << 6) + bits(5, 0x3F));
    } else {
      const Utf8Step step = decode_utf8_step(bytes, i);
      if (!step.ok) return std::nullopt;
      text.push_back(step.code_point);
      i += step.num_bytes;
      continue;
    }
    i += length;
  }
  return text;
}

/// The text behind these bytes of a code page if they are UTF-8, perhaps a slightly damaged one.
std::optional<std::u32string> decode_as_utf8(std::string bytes, size_t encoding) {
  const CodePage* const page = encoding == kLatin1 ? nullptr : &kCodePages[encoding - 1];
  if (page == nullptr || !page->keeps_dash_spaces) bytes = restore_nonbreaking_spaces(bytes);
  if (page != nullptr && page->is_sloppy) bytes = replace_lossy_sequences(bytes);
  return decode_utf8_variants(bytes);
}

/// Length of the run of characters at `at` that look like UTF-8 sequences, in one code page or another; 0 where none
/// begins.
size_t embedded_run(std::u32string_view text, size_t at) {
  if (at > 0 && (text_classes(text[at - 1]) & kStrictTail) != 0) return 0;
  size_t end = at;
  while (end < text.size()) {
    const uint32_t lead = text_classes(text[end]);
    const size_t num_tails = (lead & kLead2) != 0 ? 1 : (lead & kLead3) != 0 ? 2 : (lead & kLead4) != 0 ? 3 : 0;
    if (num_tails == 0 || end + num_tails >= text.size()) break;
    const std::u32string_view tails = text.substr(end + 1, num_tails);
    if (!std::all_of(tails.begin(), tails.end(), [](char32_t c) { return (text_classes(c) & kTail) != 0; })) break;
    end += 1 + num_tails;
  }
  return end - at;
}

/// Repairs runs of misdecoded characters inside text that is otherwise good.
std::u32string repair_embedded_runs(std::u32string_view text) {
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = embedded_run(text, i);
    if (length == 0) {
      out.push_back(text[i++]);
      continue;
    }
    const std::u32string_view run = text.substr(i, length);
    const bool repair =
        length < text.size() && looks_misdecoded(run);  // a shorter text each time: this comes to an end
    out += repair ? repair_encoding(std::u32string(run)) : std::u32string(run);
    i += length;
  }
  return out;
}

/// One repair; the text itself when there is nothing to do.
std::u32string repair_once(const std::u32string& text) {
  if (is_ascii_text(text) || !looks_misdecoded(text)) return text;
  for (size_t encoding = 0; encoding < kNumEncodings; ++encoding) {
    auto bytes = encode_bytes(text, encoding);
    if (!bytes) continue;
    if (auto repaired = decode_as_utf8(std::move(*bytes), encoding)) return std::move(*repaired);
  }
  std::u32string repaired = repair_embedded_runs(text);
  if (repaired != text) return repaired;
  replace_c1_controls(repaired);
  return repaired;
}

}  // namespace

void replace_c1_controls(std::u32string& text) {
  for (char32_t& c : text) {
    if (is_c1(c)) c = kCodePages[0].upper_half[c - 0x80];
  }
}

std::u32string repair_encoding(std::u32string text) {
  while (true) {
    std::u32string repaired = repair_once(text);
    if (repaired == text) return text;
    text = std::move(repaired);
  }
}

}  // namespace lockstep::data
