#include "data/pictures/picture_check.h"

#include <algorithm>
#include <span>

#include "data/pictures/image.h"

namespace lockstep::data {

void check_picture(std::string_view encoded, std::string_view name, PictureDepth depth) {
  const auto bytes = std::as_bytes(std::span(encoded));
  if (depth == PictureDepth::kFirstBytes) {
    detect_image_format(bytes, name);
    return;
  }
  constexpr DecodeLimits kAsTraining{.max_pixels = 200'000'000};  // the most that --max-image-pixels has by default
  thread_local Image pixels;                                      // its memory serves the next picture
  decode_image_into(bytes, name, kAsTraining, pixels);
}

void BadPictures::add(const DataError& error) {
  const std::scoped_lock lock(mutex_);
  ++count_;
  if (messages_.size() < kMaxBadPictures) messages_.emplace_back(error.what());
}

std::vector<std::string> BadPictures::messages() const {
  std::vector<std::string> sorted = messages_;
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

}  // namespace lockstep::data
