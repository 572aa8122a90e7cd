#include "data/pictures/image_types.h"

#include "data/bad_sample_hint.h"

namespace lockstep::data {

void check_image_size(int64_t width, int64_t height, std::string_view name, const DecodeLimits& limits) {
  if (width > 0 && height > 0 && width <= limits.max_pixels / height) return;
  throw DataError(
      fmt::format("data: picture in {} announces {} x {} pixels, expected at least 1 x 1 and at most {} pixels in all",
                  name, width, height, limits.max_pixels),
      "the file is damaged or made to exhaust memory; leave it out or scale it down beforehand, or set the limit with "
      "--max-image-pixels");
}

DataError damaged_image(std::string_view name, std::string_view format, std::string_view reason, size_t num_bytes) {
  return DataError(fmt::format("data: picture in {} ({}, {} bytes) is damaged: {}", name, format, num_bytes, reason),
                   or_leave_out("get the file again"));
}

void allocate_image(int width, int height, Image& out) {
  out.width = width;
  out.height = height;
  out.rgb_YXC.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
}

}  // namespace lockstep::data
