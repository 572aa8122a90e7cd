#include "data/shards/sample.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "core/files.h"
#include "core/json.h"
#include "core/strings.h"
#include "core/wrapped_message.h"
#include "data/bad_sample_hint.h"
#include "data/shards/tar_reader.h"

namespace lockstep::data {

namespace {

constexpr auto kPictures = std::to_array<std::string_view>({"jpg", "jpeg", "png", "webp"});
constexpr auto kRecordings = std::to_array<std::string_view>({"flac", "wav", "ogg", "oga", "opus"});

}  // namespace

std::span<const std::string_view> picture_extensions() { return kPictures; }
std::span<const std::string_view> audio_extensions() { return kRecordings; }

bool is_picture_extension(std::string_view extension) { return std::ranges::count(kPictures, extension) > 0; }
bool is_audio_extension(std::string_view extension) { return std::ranges::count(kRecordings, extension) > 0; }
std::vector<std::string> default_audio_keys() { return core::split(kDefaultAudioKeys, ";"); }
std::vector<std::string> default_image_keys() { return core::split(kDefaultImageKeys, ";"); }

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

const Member& RawSample::require(std::span<const std::string> extensions, const char* what, const char* flag) const {
  if (const Member* member = find(extensions)) return *member;
  throw DataError(fmt::format("data: {} has no {}: expected a member that ends in .{}", place(), what,
                              fmt::join(extensions, ", .")),
                  or_leave_out(fmt::format("name the members with {}", flag)));
}

std::string RawSample::place() const {
  if (!file.empty())
    return fmt::format("file '{}'{}", file, offset > 0 ? fmt::format(" ('{}' line {})", shard, offset) : "");
  return fmt::format("shard '{}' offset={} key='{}'", shard, offset, key);
}

void load_deferred(RawSample& sample) {
  if (const auto load = std::exchange(sample.load, nullptr)) load(sample);
  if (sample.file.empty()) return;
  std::string extension = core::to_lower_ascii(std::filesystem::path(sample.file).extension().string());
  if (!extension.empty()) extension.erase(0, 1);
  if (!is_picture_extension(extension) && !is_audio_extension(extension)) extension = "jpg";
  if (sample.find(extension) != nullptr) return;
  try {
    std::error_code ignored;  // the reading tells it
    const auto bytes = std::filesystem::file_size(sample.file, ignored);
    if (!ignored && bytes > kMaxMemberBytes)
      throw DataError(fmt::format("data: {}: bytes={}, expected at most {}", sample.place(), bytes, kMaxMemberBytes),
                      or_leave_out("name a picture or a sound"));
    sample.members.push_back({extension, core::read_file(sample.file)});
  } catch (const EnvironmentError& error) {
    throw DataError(core::wrapped_message("data: " + sample.place(), error),
                    or_leave_out(error.hint().empty() ? "get the file again" : error.hint()));
  }
}

void rethrow_with_place(const DataError& error, const RawSample& sample) {
  if (std::string_view(error.what()).find(sample.place()) != std::string_view::npos) throw DataError(error);
  const std::string_view what = error.what(), module = "data: ";
  throw DataError(
      fmt::format("data: {}: {}", sample.place(), core::starts_with(what, module) ? what.substr(module.size()) : what),
      error.hint());
}

void append_bad_samples(const std::filesystem::path& file, int64_t rank, std::span<const BadSample> samples) {
  std::string lines = std::filesystem::exists(file) ? core::read_file(file) : "";
  for (const BadSample& bad : samples) {
    const core::Json line{
        {"rank", rank}, {"shard", bad.shard}, {"offset", bad.offset}, {"key", bad.key}, {"reason", bad.reason}};
    lines += line.dump(-1, ' ', false, core::Json::error_handler_t::replace) + "\n";
  }
  core::write_file_atomic(file, lines);
}

}  // namespace lockstep::data
