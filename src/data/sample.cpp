#include "data/sample.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "core/files.h"
#include "core/strings.h"

namespace lockstep::data {

namespace {

template <size_t N>
bool contains(const std::array<std::string_view, N>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

}  // namespace

bool is_picture_extension(std::string_view extension) {
  return contains(std::to_array<std::string_view>({"jpg", "jpeg", "png", "webp"}), extension);
}

bool is_audio_extension(std::string_view extension) {
  return contains(std::to_array<std::string_view>({"flac", "wav", "ogg", "oga", "opus"}), extension);
}

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

const Member& RawSample::require(std::span<const std::string> extensions, const char* what) const {
  if (const Member* member = find(extensions)) return *member;
  throw DataError(fmt::format("data: {} has no {}: expected a member that ends in .{}", place(), what, fmt::join(extensions, ", .")),
                  "name the members with --image-key, --audio-ext or --text-key, or leave such samples out with --on-bad-sample skip");
}

std::string RawSample::place() const {
  if (!file.empty()) return fmt::format("file '{}' ('{}' row {})", file, shard, offset);
  return fmt::format("shard '{}' offset={} key='{}'", shard, offset, key);
}

void load_deferred(RawSample& sample) {
  if (sample.file.empty()) return;
  std::string extension = core::to_lower_ascii(std::filesystem::path(sample.file).extension().string());
  if (!extension.empty()) extension.erase(0, 1);
  if (!is_picture_extension(extension) && !is_audio_extension(extension)) extension = "jpg";
  if (sample.find(extension) != nullptr) return;
  try {
    sample.members.push_back({extension, core::read_file(sample.file)});
  } catch (const EnvironmentError& error) {
    throw DataError(fmt::format("data: {}: {}", sample.place(), error.what()), error.hint());
  }
}

void rethrow_with_place(const DataError& error, const RawSample& sample) {
  if (std::string_view(error.what()).find(sample.place()) != std::string_view::npos) throw DataError(error);
  throw DataError(fmt::format("data: {}: {}", sample.place(), error.what()), error.hint());
}

}  // namespace lockstep::data
