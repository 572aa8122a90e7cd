#include "data/inspect.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "data/pictures/image.h"
#include "data/shards/shard_reader.h"
#include "data/shards/unread_formats.h"
#include "data/sounds/audio.h"
#include "data/sounds/sound_caption.h"
#include "data/text/text_utf8.h"

namespace lockstep::data {
namespace {

constexpr size_t kMaxMessages = 100;  // of bad captions
constexpr size_t kShownBytes = 200;   // of a caption

using Reasons = std::map<std::string, int64_t>;

void add_picture(InspectReport& report, const Image& image) {
  if (report.num_decoded == 0) {
    report.min_width = report.max_width = image.width;
    report.min_height = report.max_height = image.height;
  }
  ++report.num_decoded;
  report.min_width = std::min(report.min_width, image.width);
  report.max_width = std::max(report.max_width, image.width);
  report.min_height = std::min(report.min_height, image.height);
  report.max_height = std::max(report.max_height, image.height);
}

void add_recording(InspectReport::Sounds& sounds, AudioReader& reader) {
  const AudioInfo& info = reader.info();
  bool is_silent = true;
  read_all_mono(reader, [&](std::span<const float> piece) {
    is_silent = is_silent && std::all_of(piece.begin(), piece.end(), [](float value) { return value == 0; });
  });
  sounds.num_silent += is_silent;
  sounds.min_seconds = sounds.num_decoded == 0 ? info.seconds() : std::min(sounds.min_seconds, info.seconds());
  sounds.max_seconds = std::max(sounds.max_seconds, info.seconds());
  ++sounds.rates[info.sample_rate];
  ++sounds.channels[info.num_channels];
  ++sounds.num_decoded;
}

/// At most kShownBytes, whole letters.
std::string shortened(const std::string& utf8) {
  size_t end = 0;
  while (end < utf8.size() && end + decode_utf8_step(utf8, end).num_bytes <= kShownBytes)
    end += decode_utf8_step(utf8, end).num_bytes;
  return utf8.substr(0, end);
}

/// Looks at one sample after another as training would.
class Inspector {
 public:
  explicit Inspector(const InspectConfig& config)
      : config_(config), pictures_{.image_keys = config.image_keys, .text_keys = config.text_keys},
        sounds_{.image_keys = {}, .audio_keys = config.audio_keys, .text_keys = config.text_keys} {
    if (config.text_keys.empty()) {
      pictures_.text_keys = {"txt"};
      sounds_.text_keys = core::split(kSoundTextKeys, ";");
    }
    report_.num_shards = static_cast<int64_t>(config.shards.size());
    wanted_ = pictures_.wanted();
    for (std::string& key : sounds_.wanted()) wanted_.push_back(std::move(key));
  }

  void read(const std::string& shard) {
    TarSampleReader reader(shard, 0, &wanted_, nullptr);
    while (auto sample = reader.next(true)) add(shard, std::move(*sample));
    for (const auto& [reason, count] : reader.skipped()) report_.skipped[reason] += count;
    ++report_.num_read;
  }

  InspectReport finish() && {
    // Samples with neither picture nor recording lack what their neighbours have.
    for (const auto& [reason, count] :
         num_sound_samples_ > num_picture_samples_ ? neither_as_sounds_ : neither_as_pictures_)
      report_.skipped[reason] += count;
    return std::move(report_);
  }

 private:
  void add(const std::string& shard, TarSample&& read);
  bool is_complete(const std::vector<std::string>& extensions, bool is_sound, bool is_picture);
  void judge(const RawSample& sample, bool is_sound);
  void read_caption(const RawSample& sample, bool is_sound);
  bool can_decode(const RawSample& sample, bool is_sound);

  const InspectConfig& config_;
  SampleFilter pictures_, sounds_;
  std::vector<std::string> wanted_;
  InspectReport report_;
  int64_t num_sound_samples_ = 0, num_picture_samples_ = 0;
  Reasons neither_as_sounds_, neither_as_pictures_;
};

void Inspector::add(const std::string& shard, TarSample&& read) {
  ++report_.num_samples;
  std::vector<std::string> extensions;
  for (const MemberPlace& place : read.places) {
    InspectReport::Extension& entry = report_.extensions[place.extension];
    ++entry.count;
    entry.bytes += place.size;
    extensions.push_back(place.extension);
  }
  const auto has = [&](const std::vector<std::string>& keys, bool (*is_kind)(std::string_view)) {
    return std::any_of(extensions.begin(), extensions.end(), [&](const std::string& extension) {
      return is_kind(extension) || std::find(keys.begin(), keys.end(), extension) != keys.end();
    });
  };
  const bool is_picture = has(config_.image_keys, is_picture_extension);
  const bool is_sound =
      !is_picture && (has(config_.audio_keys, is_audio_extension) || has(config_.audio_keys, is_unread_sound));
  if (!is_complete(extensions, is_sound, is_picture)) return;
  RawSample sample;
  sample.key = std::move(read.key);
  sample.shard = shard;
  sample.offset = read.offset;
  sample.members = std::move(read.members);
  judge(sample, is_sound);
}

/// Whether training takes the sample up; else the reason is counted.
bool Inspector::is_complete(const std::vector<std::string>& extensions, bool is_sound, bool is_picture) {
  num_sound_samples_ += is_sound;
  num_picture_samples_ += is_picture;
  if (!is_sound && !is_picture) {
    ++neither_as_sounds_[sounds_.reason_against(extensions)];
    ++neither_as_pictures_[pictures_.reason_against(extensions)];
    return false;
  }
  const std::string reason = (is_sound ? sounds_ : pictures_).reason_against(extensions);
  if (!reason.empty()) ++report_.skipped[reason];
  return reason.empty();
}

void Inspector::judge(const RawSample& sample, bool is_sound) {
  bool is_usable = can_decode(sample, is_sound);
  try {
    read_caption(sample, is_sound);
  } catch (const DataError& error) {
    is_usable = false;
    ++report_.num_bad_captions;
    if (report_.bad_captions.size() < kMaxMessages) report_.bad_captions.emplace_back(error.what());
  }
  report_.num_usable += is_usable;
}

void Inspector::read_caption(const RawSample& sample, bool is_sound) try {
  std::string caption;
  if (is_sound) {
    caption = sound_caption(sample, sounds_.text_keys, /*caption_key=*/0, /*is_train=*/false);
  } else {
    const Member& text = sample.require(pictures_.text_keys, "caption", "--text-key");
    check_caption_bytes(text.bytes, text.extension);
    caption = text.bytes;
  }
  if (static_cast<int64_t>(report_.captions.size()) < config_.max_shown)
    report_.captions.push_back({sample.key, shortened(caption)});
} catch (const DataError& error) {
  rethrow_with_place(error, sample);
}

/// False when its picture or recording was found bad; those behind the first max_decoded are taken on trust.
bool Inspector::can_decode(const RawSample& sample, bool is_sound) {
  const Member& member = is_sound ? sample.require(sounds_.audio_keys, "recording", "--audio-ext")
                                  : sample.require(pictures_.image_keys, "picture", "--image-key");
  ++(is_sound ? report_.sounds.num_recordings : report_.num_pictures);
  std::vector<std::string>& bad = is_sound ? report_.sounds.bad : report_.bad_pictures;
  const int64_t num_decoded = is_sound ? report_.sounds.num_decoded : report_.num_decoded;
  if (num_decoded + static_cast<int64_t>(bad.size()) >= config_.max_decoded) return true;
  try {
    const auto bytes = std::as_bytes(std::span(member.bytes));
    if (is_sound) {
      AudioReader reader(bytes, sample.place());
      add_recording(report_.sounds, reader);
    } else {
      add_picture(report_, decode_image(bytes, sample.place()));
    }
    return true;
  } catch (const DataError& error) {
    bad.emplace_back(error.what());
    return false;
  }
}

}  // namespace

InspectReport inspect_shards(const InspectConfig& config) {
  Inspector inspector(config);
  const size_t num_read = config.max_shards == 0
                              ? config.shards.size()
                              : std::min(config.shards.size(), static_cast<size_t>(config.max_shards));
  std::vector<DataError> errors;
  for (size_t i = 0; i < num_read; ++i) {
    try {
      inspector.read(config.shards[i]);
    } catch (const DataError& error) {
      errors.push_back(error);
    }
  }
  if (!errors.empty() && errors.size() == num_read) throw errors.front();
  InspectReport report = std::move(inspector).finish();
  for (const DataError& error : errors) report.damaged_shards.emplace_back(error.what());
  return report;
}

core::Json InspectReport::to_json() const {
  core::Json json{{"shards", num_shards},
                  {"shards_read", num_read},
                  {"damaged_shards", damaged_shards},
                  {"samples", num_samples},
                  {"usable", num_usable}};
  json["extensions"] = core::Json::object();
  for (const auto& [name, entry] : extensions)
    json["extensions"][name] = {{"count", entry.count}, {"bytes", entry.bytes}};
  json["skipped"] = core::Json(skipped);
  json["captions"] = core::Json::array();
  for (const Caption& caption : captions) json["captions"].push_back({{"key", caption.key}, {"text", caption.text}});
  json["bad_captions"] = {{"count", num_bad_captions}, {"first", bad_captions}};
  json["pictures"] = {{"seen", num_pictures},   {"decoded", num_decoded},   {"min_width", min_width},
                      {"max_width", max_width}, {"min_height", min_height}, {"max_height", max_height},
                      {"bad", bad_pictures}};
  const auto counts = [](const std::map<int64_t, int64_t>& map) {
    core::Json object = core::Json::object();
    for (const auto& [value, count] : map) object[std::to_string(value)] = count;
    return object;
  };
  json["recordings"] = {{"seen", sounds.num_recordings},       {"decoded", sounds.num_decoded},
                        {"silent", sounds.num_silent},         {"min_seconds", sounds.min_seconds},
                        {"max_seconds", sounds.max_seconds},   {"sample_rates", counts(sounds.rates)},
                        {"channels", counts(sounds.channels)}, {"bad", sounds.bad}};
  return json;
}

}  // namespace lockstep::data
