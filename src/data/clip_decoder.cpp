#include "data/clip_decoder.h"

#include <utility>

#include "core/error.h"
#include "core/hash.h"
#include "core/rng.h"

namespace lockstep::data {
namespace {

const Member& find_member(const RawSample& sample, const std::vector<std::string>& keys, const char* what) {
  if (const Member* member = sample.find(keys)) return *member;
  throw DataError(fmt::format("data: {} has no {}: expected a member that ends in .{}", sample.place(), what, fmt::join(keys, ", .")),
                  "name the members with --image-key or --text-key, or leave such samples out with --on-bad-sample skip");
}

}  // namespace

SampleDecoder make_clip_decoder(const ClipDecoderConfig& config, TextEncoder encoder) {
  check_transform(config.transform);
  return [config, encoder = std::move(encoder)](const RawSample& sample, SampleSlot& slot) {
    thread_local TransformScratch scratch;
    try {
      if (!slot.image_YXC.empty()) {
        const Member& image = find_member(sample, config.image_keys, "picture");
        const uint64_t crop_key = core::stream_key({config.seed, core::stable_hash("crop"), sample.id});
        apply_encoded(std::as_bytes(std::span(image.bytes)), sample.place(), config.transform, crop_key, slot.image_YXC, scratch);
      }
      if (!slot.text_T.empty()) encoder(find_member(sample, config.text_keys, "caption").bytes, slot.text_T);
    } catch (const DataError& error) {
      if (std::string(error.what()).find(sample.place()) != std::string::npos) throw;
      throw DataError(fmt::format("data: {}: {}", sample.place(), error.what()), error.hint());
    }
  };
}

}  // namespace lockstep::data
