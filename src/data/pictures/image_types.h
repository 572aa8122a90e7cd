#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/error.h"

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

/// What a decoder accepts. Sizes are checked against the header before memory is asked for.
struct DecodeLimits {
  /// Largest width x height. The default is where Pillow starts to warn of decompression bombs: 256 MiB of RGB.
  int64_t max_pixels = 89'478'485;
};

/// Throws DataError with both numbers where a header announces nothing or too much.
void check_image_size(int64_t width, int64_t height, std::string_view name, const DecodeLimits& limits);

/// "data: picture '<name>' is damaged: <reason>", with the hint that all decoders share.
DataError damaged_image(std::string_view name, std::string_view format, std::string_view reason, size_t num_bytes);

/// Sets the size of `out` to width x height; memory is kept between calls where it suffices.
void allocate_image(int width, int height, Image& out);

}  // namespace lockstep::data
