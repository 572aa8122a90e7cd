#include "core/print.h"

#include <cstdint>
#include <cstdio>
#include <iterator>

namespace lockstep::core {
namespace {

struct Character {
  uint32_t code;
  size_t num_bytes;
  bool is_valid = true;
};

Character character_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t offset) { return static_cast<unsigned char>(text[at + offset]); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t num_bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + num_bytes > text.size()) return {lead, 1, false};
  uint32_t code = lead & (0x7Fu >> num_bytes);
  for (size_t i = 1; i < num_bytes; ++i) {
    if ((byte(i) & 0xC0u) != 0x80) return {lead, 1, false};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  return {code, num_bytes};
}

bool steers_terminal(uint32_t code) {
  const bool is_control = (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7F && code < 0xA0);
  const bool turns_writing = (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) ||
                             code == 0x061C || code == 0x200E || code == 0x200F;
  return is_control || turns_writing;
}

std::string cleaned(std::string_view text, bool has_lines) {
  std::string clean;
  clean.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    const bool ends_line =
        character.code == '\n' || character.code == 0x2028 || character.code == 0x2029;  // the last two for pagers
    if (!character.is_valid || steers_terminal(character.code) || (ends_line && !has_lines))
      fmt::format_to(std::back_inserter(clean), "\\u{:04x}", character.code);
    else
      clean += text.substr(at, character.num_bytes);
    at += character.num_bytes;
  }
  return clean;
}

}  // namespace

std::string printable(std::string_view text) { return cleaned(text, /*has_lines=*/true); }

std::string printable_line(std::string_view text) { return cleaned(text, /*has_lines=*/false); }

void print_text(std::string_view text) {
  const std::string clean = printable(text);
  std::fwrite(clean.data(), 1, clean.size(), stdout);
}

void print_error_text(std::string_view text) {
  const std::string clean = printable(text);
  std::fwrite(clean.data(), 1, clean.size(), stderr);
}

}  // namespace lockstep::core
