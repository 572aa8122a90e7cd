#include "data/shards/unread_formats.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "core/strings.h"

namespace lockstep::data {
namespace {

constexpr std::array<std::string_view, 9> kUnreadPictures = {".bmp", ".gif",  ".tif",  ".tiff", ".ppm",
                                                             ".pgm", ".heic", ".avif", ".jp2"};
constexpr std::array<std::string_view, 8> kUnreadSounds = {".mp3",  ".m4a", ".aac", ".ogg",
                                                           ".opus", ".wma", ".aif", ".aiff"};

void count(const std::filesystem::path& file, std::span<const std::string_view> unread, UnreadFormats& formats) {
  const std::string extension = core::to_lower_ascii(file.extension().string());
  if (std::ranges::find(unread, extension) != unread.end()) ++formats[extension];
}

}  // namespace

void count_unread_picture(const std::filesystem::path& file, UnreadFormats& formats) {
  count(file, kUnreadPictures, formats);
}
void count_unread_sound(const std::filesystem::path& file, UnreadFormats& formats) {
  count(file, kUnreadSounds, formats);
}

bool is_unread_sound(std::string_view extension) {
  return std::ranges::find(kUnreadSounds, "." + std::string(extension)) != kUnreadSounds.end();
}

std::string unread_text(const UnreadFormats& formats, const char* what, std::span<const std::string_view> read) {
  std::vector<std::string> counts;
  for (const auto& [extension, number] : formats) counts.push_back(fmt::format("{} {}", number, extension));
  return fmt::format("left out, since {} are read from .{}: {}", what, fmt::join(read, ", ."),
                     core::join(counts, ", "));
}

}  // namespace lockstep::data
