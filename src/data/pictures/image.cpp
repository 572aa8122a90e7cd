#include "data/pictures/image.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/error.h"
#include "data/bad_sample_hint.h"
#include "data/pictures/image_codecs.h"

namespace lockstep::data {
namespace {

bool begins_with(std::span<const std::byte> bytes, size_t offset, std::string_view magic) {
  if (bytes.size() < offset + magic.size()) return false;
  return std::equal(
      magic.begin(), magic.end(), bytes.begin() + static_cast<ptrdiff_t>(offset),
      [](char c, std::byte b) { return static_cast<unsigned char>(c) == std::to_integer<unsigned char>(b); });
}

/// A guess at what foreign bytes are, for the message.
std::string describe(std::span<const std::byte> bytes) {
  struct Known {
    size_t offset;
    std::string_view magic, what;
  };
  constexpr std::array<Known, 8> kKnown{{{0, "GIF8", "a GIF"},
                                         {0, "BM", "a BMP"},
                                         {0, {"II*\0", 4}, "a TIFF"},
                                         {0, {"MM\0*", 4}, "a TIFF"},
                                         {4, "ftypavif", "an AVIF"},
                                         {4, "ftyphei", "a HEIF"},
                                         {0, "<", "text (an HTML page or SVG)"},
                                         {0, "{", "text (JSON)"}}};
  for (const Known& known : kKnown) {
    if (begins_with(bytes, known.offset, known.magic)) return std::string(known.what);
  }
  if (bytes.empty()) return "an empty file";
  std::string hex;
  for (const std::byte b : bytes.first(std::min<size_t>(bytes.size(), 8)))
    hex += fmt::format("{:02x} ", std::to_integer<int>(b));
  return fmt::format("{} bytes that begin {}", bytes.size(), hex.substr(0, hex.size() - 1));
}

}  // namespace

ImageFormat detect_image_format(std::span<const std::byte> bytes, std::string_view name) {
  if (begins_with(bytes, 0, "\xff\xd8\xff")) return ImageFormat::kJpeg;
  if (begins_with(bytes, 0, "\x89PNG\r\n\x1a\n")) return ImageFormat::kPng;
  if (begins_with(bytes, 0, "RIFF") && begins_with(bytes, 8, "WEBP")) return ImageFormat::kWebp;
  throw DataError(fmt::format("data: picture in {} is {}, expected JPEG, PNG or WebP", name, describe(bytes)),
                  or_leave_out("convert it"));
}

void decode_image_into(std::span<const std::byte> bytes, std::string_view name, const DecodeLimits& limits,
                       Image& out) {
  switch (detect_image_format(bytes, name)) {
    case ImageFormat::kJpeg: JpegReader(bytes, name, limits).read_all(out); return;
    case ImageFormat::kPng: decode_png(bytes, name, limits, out); return;
    case ImageFormat::kWebp: decode_webp(bytes, name, limits, out); return;
  }
}

Image decode_image(std::span<const std::byte> bytes, std::string_view name, const DecodeLimits& limits) {
  Image image;
  decode_image_into(bytes, name, limits, image);
  return image;
}

}  // namespace lockstep::data
