#pragma once
#include <cstddef>
#include <span>
#include <string_view>

#include "data/pictures/image_types.h"

namespace lockstep::data {

enum class ImageFormat { kJpeg, kPng, kWebp };

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
