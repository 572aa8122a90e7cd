#include "data/sample.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"

namespace lockstep::data {

const Member* RawSample::find(std::span<const std::string> extensions) const {
  for (const std::string& extension : extensions)
    if (const Member* member = find(extension)) return member;
  return nullptr;
}

const Member* RawSample::find(std::string_view extension) const {
  const auto found =
      std::find_if(members.begin(), members.end(), [&](const Member& member) { return member.extension == extension; });
  return found == members.end() ? nullptr : &*found;
}

std::string RawSample::place() const {
  if (!file.empty()) return fmt::format("file '{}' ('{}' row {})", file, shard, offset);
  return fmt::format("shard '{}' offset={} key='{}'", shard, offset, key);
}

void load_deferred(RawSample& sample) {
  if (sample.file.empty()) return;
  std::string extension = core::to_lower_ascii(std::filesystem::path(sample.file).extension().string());
  if (!extension.empty()) extension.erase(0, 1);
  static constexpr std::array<std::string_view, 4> kPictures = {"jpg", "jpeg", "png", "webp"};
  if (std::find(kPictures.begin(), kPictures.end(), extension) == kPictures.end()) extension = "jpg";
  if (sample.find(extension) != nullptr) return;
  try {
    sample.members.push_back({extension, core::read_file(sample.file)});
  } catch (const EnvironmentError& error) {
    throw DataError(fmt::format("data: {}: {}", sample.place(), error.what()), error.hint());
  }
}

}  // namespace lockstep::data
