#include "data/pictures/clip_decoder.h"

#include <utility>

#include "core/hash.h"
#include "core/rng.h"

namespace lockstep::data {

SampleDecoder make_clip_decoder(const ClipDecoderConfig& config, TextEncoder encoder) {
  check_transform(config.transform);
  return [config, encoder = std::move(encoder)](const RawSample& sample, SampleSlot& slot) {
    thread_local TransformScratch scratch;
    try {
      if (!slot.image_YXC.empty()) {
        const Member& image = sample.require(config.image_keys, "picture", "--image-key");
        const uint64_t crop_key = core::stream_key({config.seed, core::stable_hash("crop"), sample.id});
        apply_encoded(std::as_bytes(std::span(image.bytes)), sample.place(), config.transform, crop_key, slot.image_YXC,
                      scratch);
      }
      if (!slot.text_T.empty()) encoder(sample.require(config.text_keys, "caption", "--text-key").bytes, slot.text_T);
    } catch (const DataError& error) {
      rethrow_with_place(error, sample);
    }
  };
}

}  // namespace lockstep::data
