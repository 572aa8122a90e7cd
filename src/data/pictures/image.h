#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// A picture in memory: rows from the top, three bytes (red, green, blue) per pixel, no padding between rows.
struct Image {
  int width = 0;   ///< pixels
  int height = 0;  ///< pixels
  std::vector<uint8_t> rgb_YXC;
};

/// A rectangle of pixels, origin in the top left corner of the picture.
struct Region {
  int x = 0, y = 0, width = 0, height = 0;
  bool operator==(const Region&) const = default;
};

enum class ImageFormat { kJpeg, kPng, kWebp };

/// What a decoder accepts. Sizes are checked against the header before memory is asked for.
struct DecodeLimits {
  /// Largest width x height. The default is where Pillow starts to warn of decompression bombs: 256 MiB of RGB.
  int64_t max_pixels = 89'478'485;
};

/// The format by its first bytes, never by the name. Throws DataError that says what the bytes look like where it is
/// none of ours.
ImageFormat detect_image_format(std::span<const std::byte> bytes, std::string_view name);

/// Decodes JPEG (also grey, CMYK, YCCK, progressive), PNG (every colour type, bit depth, interlaced) or WebP (still
/// pictures) to RGB, with the values of Pillow's Image.open(...).convert("RGB"): alpha is dropped without blending,
/// 16-bit colours keep their high byte, 16-bit grey is clipped to 255, EXIF rotation and colour profiles are ignored.
/// Damage of any kind, each libjpeg warning among it, throws DataError with `name`, and no partial picture is returned.
Image decode_image(std::span<const std::byte> bytes, std::string_view name, const DecodeLimits& limits = {});

/// The same into `out`, whose memory is reused.
void decode_image_into(std::span<const std::byte> bytes, std::string_view name, const DecodeLimits& limits, Image& out);

}  // namespace lockstep::data
