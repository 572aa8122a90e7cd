#include "data/text/text_utf8.h"

namespace lockstep::data {
namespace {

/// Length of a sequence by its first byte; 0 where no sequence begins.
size_t sequence_bytes(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

/// Whether the second byte may follow the first: keeps out over-long forms, surrogates and numbers above U+10FFFF.
bool second_byte_fits(unsigned char lead, unsigned char second) {
  if ((second & 0xC0) != 0x80) return false;
  switch (lead) {
    case 0xE0: return second >= 0xA0;
    case 0xED: return second <= 0x9F;
    case 0xF0: return second >= 0x90;
    case 0xF4: return second <= 0x8F;
    default: return true;
  }
}

}  // namespace

Utf8Step decode_utf8_step(std::string_view bytes, size_t position) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = at(position);
  const size_t wanted = sequence_bytes(lead);
  if (wanted == 1) return {lead, 1, true};
  if (wanted == 0) return {kReplacementCharacter, 1, false};
  char32_t value = lead & (0x7Fu >> wanted);
  for (size_t i = 1; i < wanted; ++i) {
    if (position + i >= bytes.size()) return {kReplacementCharacter, i, false};
    const unsigned char next = at(position + i);
    const bool fits = i == 1 ? second_byte_fits(lead, next) : (next & 0xC0) == 0x80;
    if (!fits) return {kReplacementCharacter, i, false};
    value = (value << 6) | (next & 0x3Fu);
  }
  return {value, wanted, true};
}

size_t find_invalid_utf8(std::string_view bytes) {
  for (size_t i = 0; i < bytes.size();) {
    const Utf8Step step = decode_utf8_step(bytes, i);
    if (!step.ok) return i;
    i += step.num_bytes;
  }
  return std::string_view::npos;
}

bool decode_utf8(std::string_view bytes, std::u32string& text) {
  text.clear();
  text.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    const Utf8Step step = decode_utf8_step(bytes, i);
    if (!step.ok) return false;
    text.push_back(step.code_point);
    i += step.num_bytes;
  }
  return true;
}

void append_utf8(std::string& bytes, char32_t c) {
  const auto put = [&](char32_t value) { bytes.push_back(static_cast<char>(value)); };
  if (c < 0x80) {
    put(c);
    return;
  }
  if (c < 0x800) {
    put(0xC0 | (c >> 6));
  } else {
    if (c < 0x10000) {
      put(0xE0 | (c >> 12));
    } else {
      put(0xF0 | (c >> 18));
      put(0x80 | ((c >> 12) & 0x3F));
    }
    put(0x80 | ((c >> 6) & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

std::string encode_utf8(std::u32string_view text) {
  std::string bytes;
  bytes.reserve(text.size() * 2);
  for (char32_t c : text) append_utf8(bytes, c);
  return bytes;
}

std::string repair_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    const Utf8Step step = decode_utf8_step(bytes, i);
    append_utf8(out, step.code_point);
    i += step.num_bytes;
  }
  return out;
}

bool is_white_space(char32_t c) {
  if (c <= 0x20) return c == 0x20 || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  if (c < 0x1680) return c == 0x85 || c == 0xA0;
  return c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

std::u32string_view strip_white_space(std::u32string_view text) {
  while (!text.empty() && is_white_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_white_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace lockstep::data
