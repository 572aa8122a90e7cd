#include "data/labelled_set.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>

#include "core/error.h"
#include "data/parallel_for.h"
#include "data/pictures/image.h"
#include "data/shards/lmdb_reader.h"
#include "data/shards/source_lmdb.h"
#include "data/shards/source_rows.h"
#include "data/sounds/audio.h"
#include "data/sounds/recording_check.h"

namespace lockstep::data {
namespace fs = std::filesystem;
namespace {

SourceConfig config_of(const std::string& path) {
  SourceConfig config;
  config.spec = path;
  config.need_text = false;
  return config;
}

const Member& media_of(const RawSample& sample, bool is_of_sounds) {
  for (const Member& member : sample.members)
    if ((is_of_sounds ? is_audio_extension : is_picture_extension)(member.extension)) return member;
  throw DataError(fmt::format("data: {} has no {}", sample.place(), is_of_sounds ? "recording" : "picture"));
}

/// Class folders of pictures; of recordings where every class has some and not every class has pictures.
RowTable open_folders(const std::string& path, bool& is_of_sounds) {
  SourceConfig config = config_of(path);
  is_of_sounds = false;
  try {
    return open_class_folders(config);
  } catch (const DataError& no_pictures) {
    config.need_audio = true;
    try {
      RowTable rows = open_class_folders(config);
      is_of_sounds = true;
      return rows;
    } catch (const DataError&) {
      throw no_pictures;
    }
  }
}

/// Classes of the rows of class folders, whose keys are CLASS/FILE.
void count_classes(const RowTable& rows, LabelledReport& report) {
  std::map<std::string, int64_t> counts;
  for (int64_t i = 0; i < rows.num_rows; ++i) {
    const std::string key = rows.row(i).key;
    ++counts[key.substr(0, key.find('/'))];
  }
  const auto [fewest, most] = std::minmax_element(counts.begin(), counts.end(),
                                                  [](const auto& a, const auto& b) { return a.second < b.second; });
  report.smallest_class = fewest->first;
  report.fewest_of_class = fewest->second;
  report.largest_class = most->first;
  report.most_of_class = most->second;
}

void add_size(LabelledReport& report, const Image& image) {
  const bool is_first = report.num_decoded++ == 0;
  report.min_width = is_first ? image.width : std::min(report.min_width, image.width);
  report.min_height = is_first ? image.height : std::min(report.min_height, image.height);
  report.max_width = std::max(report.max_width, image.width);
  report.max_height = std::max(report.max_height, image.height);
}

void add_length(LabelledReport& report, std::span<const std::byte> bytes, const std::string& place) {
  AudioReader reader(bytes, place);
  read_all_mono(reader, [](std::span<const float>) {});
  const double seconds = reader.info().seconds();
  report.min_seconds = report.num_decoded++ == 0 ? seconds : std::min(report.min_seconds, seconds);
  report.max_seconds = std::max(report.max_seconds, seconds);
}

/// "LMDB '/d/x' key '7'", which tells more than the row of it.
std::string place_of(const LabelledReport& report, const RawSample& sample) {
  return report.is_lmdb ? fmt::format("LMDB '{}' key '{}'", sample.shard, sample.key) : sample.place();
}

void decode_some(const RowTable& rows, int64_t num_wanted, LabelledReport& report) {
  const int64_t num = std::min(num_wanted, rows.num_rows);
  for (int64_t i = 0; i < num; ++i) {
    RawSample sample = rows.row(i * rows.num_rows / num);
    try {
      load_deferred(sample);
      const Member& media = media_of(sample, report.is_of_sounds);
      const auto bytes = std::as_bytes(std::span(media.bytes));
      if (report.is_of_sounds)
        add_length(report, bytes, place_of(report, sample));
      else
        add_size(report, decode_image(bytes, place_of(report, sample)));
      if (!report.is_lmdb) report.num_bytes += media.bytes.size();
    } catch (const DataError& error) {
      report.bad.emplace_back(error.what());
    }
  }
}

}  // namespace

bool is_labelled_set(const std::string& path) {
  std::error_code ignored;
  return is_lmdb(path) || fs::is_directory(path, ignored);
}

FolderCheck check_class_folders(const std::string& folder, int64_t num_threads, PictureDepth depth,
                                const std::function<void(int64_t num_done)>& on_progress) {
  constexpr int64_t kTellEvery = 256;
  FolderCheck check;
  const RowTable rows = open_folders(folder, check.is_of_sounds);
  check.num_pictures = rows.num_rows;
  check.num_classes = std::ssize(image_folder_classes(folder));
  BadPictures bad;
  std::mutex mutex;
  int64_t num_done = 0;
  for_each_parallel(static_cast<size_t>(rows.num_rows), num_threads, [&](size_t i, size_t) {
    RawSample sample = rows.row(static_cast<int64_t>(i));
    uint64_t num_bytes = 0;
    try {
      load_deferred(sample);
      const Member& media = media_of(sample, check.is_of_sounds);
      num_bytes = media.bytes.size();
      (check.is_of_sounds ? check_recording : check_picture)(media.bytes, fmt::format("file '{}'", sample.file), depth);
    } catch (const DataError& error) {
      bad.add(error);
    }
    const std::scoped_lock lock(mutex);
    check.num_bytes += num_bytes;
    if (on_progress && ++num_done % kTellEvery == 0) on_progress(num_done);
  });
  check.num_bad = bad.count();
  check.bad = bad.messages();
  return check;
}

LabelledReport inspect_labelled_set(const std::string& path, int64_t num_decoded) {
  LabelledReport report;
  report.is_lmdb = is_lmdb(path);
  const RowTable rows = report.is_lmdb ? open_lmdb(config_of(path)) : open_folders(path, report.is_of_sounds);
  report.num_pictures = rows.num_rows;
  if (report.is_lmdb) {
    const LmdbReader reader(path);
    report.num_bytes = reader.num_bytes();
    report.class_names = lmdb_class_names(reader);
    if (const auto progress = read_lmdb_progress(reader)) report.num_classes = progress->num_classes;
  } else {
    report.class_names = image_folder_classes(path);
    count_classes(rows, report);
  }
  if (!report.class_names.empty()) report.num_classes = std::ssize(report.class_names);
  decode_some(rows, num_decoded, report);
  return report;
}

core::Json LabelledReport::to_json() const {
  core::Json json{{"kind", is_lmdb ? "lmdb" : "imagefolder"},
                  {"samples", num_pictures},
                  {"classes", num_classes},
                  {"class_names", class_names},
                  {"bytes", num_bytes}};
  if (is_of_sounds)
    json["recordings"] = {
        {"decoded", num_decoded}, {"min_seconds", min_seconds}, {"max_seconds", max_seconds}, {"bad", bad}};
  else
    json["pictures"] = {{"decoded", num_decoded},   {"min_width", min_width},   {"max_width", max_width},
                        {"min_height", min_height}, {"max_height", max_height}, {"bad", bad}};
  if (!is_lmdb) json["samples_of_class"] = {{"fewest", fewest_of_class}, {"most", most_of_class}};
  return json;
}

}  // namespace lockstep::data
