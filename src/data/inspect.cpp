#include "data/inspect.h"

#include <algorithm>

#include "core/error.h"
#include "data/audio.h"
#include "data/image.h"
#include "data/shard_reader.h"

namespace lockstep::data {
namespace {

void add_picture(InspectReport& report, const RawSample& sample, const Member& picture) {
  try {
    const Image image = decode_image(std::as_bytes(std::span(picture.bytes)), sample.place());
    if (report.num_decoded == 0) {
      report.min_width = report.max_width = image.width;
      report.min_height = report.max_height = image.height;
    }
    ++report.num_decoded;
    report.min_width = std::min(report.min_width, image.width);
    report.max_width = std::max(report.max_width, image.width);
    report.min_height = std::min(report.min_height, image.height);
    report.max_height = std::max(report.max_height, image.height);
  } catch (const DataError& error) {
    report.bad_pictures.emplace_back(error.what());
  }
}

void add_recording(InspectReport::Sounds& sounds, const RawSample& sample, const Member& recording) {
  try {
    AudioReader reader(std::as_bytes(std::span(recording.bytes)), sample.place());
    const AudioInfo& info = reader.info();
    bool is_silent = true;
    std::vector<float> values;
    for (int64_t at = 0, step = 1 << 20; at < info.num_frames; at += step) {
      reader.read_mono(at, std::min(step, info.num_frames - at), values);
      is_silent = is_silent && std::all_of(values.begin(), values.end(), [](float value) { return value == 0; });
    }
    sounds.num_silent += is_silent;
    sounds.min_seconds = sounds.num_decoded == 0 ? info.seconds() : std::min(sounds.min_seconds, info.seconds());
    sounds.max_seconds = std::max(sounds.max_seconds, info.seconds());
    ++sounds.rates[info.sample_rate];
    ++sounds.channels[info.num_channels];
    ++sounds.num_decoded;
  } catch (const DataError& error) {
    sounds.bad.emplace_back(error.what());
  }
}

/// What training with pictures asks of a sample, and what training with sounds does.
struct Filters {
  explicit Filters(const InspectConfig& config)
      : pictures{.image_keys = config.image_keys, .text_keys = config.text_keys},
        sounds{.image_keys = {}, .audio_keys = config.audio_keys, .text_keys = config.text_keys} {
    sounds.text_keys.emplace_back("json");
  }
  std::vector<std::string> wanted() const {
    std::vector<std::string> list = pictures.wanted();
    for (std::string& key : sounds.wanted()) list.push_back(std::move(key));
    return list;
  }
  /// "" when usable, by the kind that the sample is of.
  std::string reason_against(const std::vector<std::string>& extensions) const {
    const bool has_audio = std::any_of(extensions.begin(), extensions.end(), is_audio_extension);
    const bool has_picture = std::any_of(extensions.begin(), extensions.end(), is_picture_extension);
    return has_audio && !has_picture ? sounds.reason_against(extensions) : pictures.reason_against(extensions);
  }
  SampleFilter pictures, sounds;
};

void add_sample(InspectReport& report, const InspectConfig& config, const Filters& filters, const std::string& shard,
                TarSample&& read) {
  ++report.num_samples;
  std::vector<std::string> extensions;
  for (const MemberPlace& place : read.places) {
    InspectReport::Extension& entry = report.extensions[place.extension];
    ++entry.count;
    entry.bytes += place.size;
    extensions.push_back(place.extension);
  }
  const std::string reason = filters.reason_against(extensions);
  ++(reason.empty() ? report.num_usable : report.skipped[reason]);
  RawSample sample;
  sample.key = std::move(read.key);
  sample.shard = shard;
  sample.offset = read.offset;
  sample.members = std::move(read.members);
  const Member* text = sample.find(filters.sounds.text_keys);
  if (text != nullptr && static_cast<int64_t>(report.captions.size()) < config.max_shown)
    report.captions.push_back({sample.key, text->bytes.substr(0, 200)});
  const Member* picture = sample.find(config.image_keys);
  const auto num_tried = report.num_decoded + static_cast<int64_t>(report.bad_pictures.size());
  if (picture != nullptr && num_tried < config.max_decoded) add_picture(report, sample, *picture);
  const Member* recording = sample.find(config.audio_keys);
  const auto num_heard = report.sounds.num_decoded + static_cast<int64_t>(report.sounds.bad.size());
  if (recording != nullptr && num_heard < config.max_decoded) add_recording(report.sounds, sample, *recording);
}

}  // namespace

InspectReport inspect_shards(const InspectConfig& config) {
  InspectReport report;
  report.num_shards = static_cast<int64_t>(config.shards.size());
  const Filters filters(config);
  const std::vector<std::string> wanted = filters.wanted();
  for (const std::string& shard : config.shards) {
    if (config.max_shards > 0 && report.num_read == config.max_shards) break;
    TarSampleReader reader(shard, 0, &wanted, nullptr);
    while (auto sample = reader.next(true)) add_sample(report, config, filters, shard, std::move(*sample));
    for (const auto& [reason, count] : reader.skipped()) report.skipped[reason] += count;
    ++report.num_read;
  }
  return report;
}

core::Json InspectReport::to_json() const {
  core::Json json{{"shards", num_shards}, {"shards_read", num_read}, {"samples", num_samples}, {"usable", num_usable}};
  json["extensions"] = core::Json::object();
  for (const auto& [name, entry] : extensions) json["extensions"][name] = {{"count", entry.count}, {"bytes", entry.bytes}};
  json["skipped"] = core::Json(skipped);
  json["captions"] = core::Json::array();
  for (const Caption& caption : captions) json["captions"].push_back({{"key", caption.key}, {"text", caption.text}});
  json["pictures"] = {{"decoded", num_decoded},   {"min_width", min_width},   {"max_width", max_width},
                      {"min_height", min_height}, {"max_height", max_height}, {"bad", bad_pictures}};
  const auto counts = [](const std::map<int64_t, int64_t>& map) {
    core::Json object = core::Json::object();
    for (const auto& [value, count] : map) object[std::to_string(value)] = count;
    return object;
  };
  json["recordings"] = {{"decoded", sounds.num_decoded},       {"silent", sounds.num_silent},
                        {"min_seconds", sounds.min_seconds},   {"max_seconds", sounds.max_seconds},
                        {"sample_rates", counts(sounds.rates)}, {"channels", counts(sounds.channels)},
                        {"bad", sounds.bad}};
  return json;
}

}  // namespace lockstep::data
