#include "data/inspect.h"

#include <algorithm>

#include "core/error.h"
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

void add_sample(InspectReport& report, const InspectConfig& config, const SampleFilter& filter, const std::string& shard,
                TarSample&& read) {
  ++report.num_samples;
  std::vector<std::string> extensions;
  for (const MemberPlace& place : read.places) {
    InspectReport::Extension& entry = report.extensions[place.extension];
    ++entry.count;
    entry.bytes += place.size;
    extensions.push_back(place.extension);
  }
  const std::string reason = filter.reason_against(extensions);
  ++(reason.empty() ? report.num_usable : report.skipped[reason]);
  RawSample sample;
  sample.key = std::move(read.key);
  sample.shard = shard;
  sample.offset = read.offset;
  sample.members = std::move(read.members);
  const Member* text = sample.find(config.text_keys);
  if (text != nullptr && static_cast<int64_t>(report.captions.size()) < config.max_shown)
    report.captions.push_back({sample.key, text->bytes.substr(0, 200)});
  const Member* picture = sample.find(config.image_keys);
  const auto num_tried = report.num_decoded + static_cast<int64_t>(report.bad_pictures.size());
  if (picture != nullptr && num_tried < config.max_decoded) add_picture(report, sample, *picture);
}

}  // namespace

InspectReport inspect_shards(const InspectConfig& config) {
  InspectReport report;
  report.num_shards = static_cast<int64_t>(config.shards.size());
  const SampleFilter filter{.image_keys = config.image_keys, .text_keys = config.text_keys, .need_label = false};
  const std::vector<std::string> wanted = filter.wanted();
  for (const std::string& shard : config.shards) {
    if (config.max_shards > 0 && report.num_read == config.max_shards) break;
    TarSampleReader reader(shard, 0, &wanted, nullptr);
    while (auto sample = reader.next(true)) add_sample(report, config, filter, shard, std::move(*sample));
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
  return json;
}

}  // namespace lockstep::data
