#include "data/sounds/audio_container.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>

#include "data/bad_sample_hint.h"

namespace lockstep::data {
namespace {

constexpr size_t kId3Header = 10, kOggHeader = 27;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool holds(std::string_view text, size_t at, std::string_view part) {
  return at <= text.size() && text.substr(at).starts_with(part);
}

uint64_t little_endian(std::string_view text, size_t at, size_t num_bytes) {
  uint64_t value = 0;
  for (size_t i = num_bytes; i-- > 0;) value = value << 8 | static_cast<uint8_t>(text[at + i]);
  return value;
}

/// Bytes of the ID3v2 tag in front, 0 without one.
size_t id3_bytes(std::string_view text) {
  if (!text.starts_with("ID3") || text.size() < kId3Header) return 0;
  size_t size = 0;
  for (size_t i = 6; i < kId3Header; ++i) size = size << 7 | (static_cast<uint8_t>(text[i]) & 0x7f);
  return kId3Header + size;
}

void check_wav(std::string_view text, std::string_view name) {
  constexpr uint64_t kUnknown = 0xffffffff;  // what a writer leaves that could not go back
  for (size_t at = 12; at + 8 <= text.size();) {
    const uint64_t size = little_endian(text, at + 4, 4);
    const bool is_data = holds(text, at, "data");
    if (is_data && size == kUnknown) return;
    if (size > text.size() - at - 8)
      throw damaged_audio(name,
                          fmt::format("its '{}' chunk at byte {} announces {} bytes, {} are there",
                                      is_data ? "data" : "header", at, size, text.size() - at - 8),
                          text.size());
    if (is_data && size == 0) throw empty_audio(name, text.size());
    if (is_data) return;
    at += 8 + size + size % 2;
  }
  throw damaged_audio(name, "it has no data chunk", text.size());
}

/// CRC-32 of OGG pages: polynomial 0x04c11db7, most significant bit first, no inversion (RFC 3533).
constexpr std::array<uint32_t, 256> kOggTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i << 24;
    for (int bit = 0; bit < 8; ++bit) value = value << 1 ^ ((value >> 31) != 0 ? 0x04c11db7u : 0u);
    table[i] = value;
  }
  return table;
}();

/// Of a page, its own checksum field counted as zero.
uint32_t ogg_checksum(std::string_view page) {
  uint32_t crc = 0;
  for (size_t i = 0; i < page.size(); ++i) {
    const auto byte = i >= 22 && i < 26 ? uint8_t{0} : static_cast<uint8_t>(page[i]);
    crc = crc << 8 ^ kOggTable[crc >> 24 ^ byte];
  }
  return crc;
}

void check_ogg(std::string_view text, std::string_view name) {
  bool is_last = false;
  for (size_t at = 0; at < text.size();) {
    if (!holds(text, at, "OggS")) throw damaged_audio(name, fmt::format("no page begins at byte {}", at), text.size());
    size_t size = kOggHeader;
    const bool has_header = text.size() - at >= kOggHeader;
    const size_t num_segments = has_header ? static_cast<uint8_t>(text[at + 26]) : 0;
    const bool is_whole_header = has_header && text.size() - at >= kOggHeader + num_segments;
    if (is_whole_header) {
      size += num_segments;
      for (size_t i = 0; i < num_segments; ++i) size += static_cast<uint8_t>(text[at + kOggHeader + i]);
    }
    if (!is_whole_header || size > text.size() - at)
      throw damaged_audio(name, fmt::format("its page at byte {} goes on behind the end", at), text.size());
    const auto expected = static_cast<uint32_t>(little_endian(text, at + 22, 4)),
               seen = ogg_checksum(text.substr(at, size));
    if (seen != expected)
      throw damaged_audio(name,
                          fmt::format("its page at byte {} has checksum {:08x}, expected {:08x}", at, seen, expected),
                          text.size());
    is_last = (static_cast<uint8_t>(text[at + 5]) & 4) != 0;
    at += size;
  }
  if (!is_last) throw damaged_audio(name, "its last page is not marked as the last: it is cut short", text.size());
}

}  // namespace

AudioContainer detect_audio_container(std::span<const std::byte> bytes, std::string_view name) {
  const std::string_view text = as_text(bytes);
  if (text.starts_with("RIFF") && holds(text, 8, "WAVE")) return AudioContainer::kWav;
  if (text.starts_with("OggS")) return AudioContainer::kOgg;
  if (holds(text, id3_bytes(text), "fLaC")) return AudioContainer::kFlac;
  std::string seen;
  for (const char c : text.substr(0, 12)) seen += fmt::format("{:02x} ", static_cast<uint8_t>(c));
  throw DataError(fmt::format("data: recording in {} is no FLAC, WAV or OGG: bytes={}, the first are {}", name,
                              text.size(), seen.empty() ? "none" : seen.substr(0, seen.size() - 1)),
                  "convert it to FLAC, or leave it out");
}

void check_audio_container(AudioContainer container, std::span<const std::byte> bytes, std::string_view name) {
  if (container == AudioContainer::kWav) check_wav(as_text(bytes), name);
  if (container == AudioContainer::kOgg) check_ogg(as_text(bytes), name);
}

DataError empty_audio(std::string_view name, size_t num_bytes) {
  return DataError(fmt::format("data: recording in {} holds no sound: frames=0 (bytes={})", name, num_bytes),
                   or_leave_out("remove it"));
}

DataError damaged_audio(std::string_view name, std::string_view reason, size_t num_bytes) {
  return DataError(fmt::format("data: recording in {} is damaged: {} (bytes={})", name, reason, num_bytes),
                   or_leave_out("copy it again"));
}

}  // namespace lockstep::data
