#include "data/pictures/picture_decoder.h"

#include "core/hash.h"
#include "core/rng.h"

namespace lockstep::data {

void decode_picture(const RawSample& sample, const PictureDecoderConfig& config, std::span<uint8_t> out_YXC) {
  thread_local TransformScratch scratch;
  const Member& image = sample.require(config.image_keys, "picture", "--image-key");
  const uint64_t crop_key = core::stream_key({config.seed, core::stable_hash("crop"), sample.id});
  apply_encoded(std::as_bytes(std::span(image.bytes)), sample.place(), config.transform, crop_key, out_YXC, scratch);
  thread_local AugmentScratch augment_scratch;
  const uint64_t augment_key = core::stream_key({config.seed, core::stable_hash("augment"), sample.id});
  const int pixels = config.transform.image_pixels;
  augment(config.augment, augment_key, {.rgb_YXC = out_YXC, .width = pixels, .height = pixels}, augment_scratch);
}

SampleDecoder make_picture_decoder(const PictureDecoderConfig& config) {
  check_transform(config.transform);
  check_augment(config.augment);
  return [config](const RawSample& sample, SampleSlot& slot) {
    try {
      if (!slot.image_YXC.empty()) decode_picture(sample, config, slot.image_YXC);
    } catch (const DataError& error) {
      rethrow_with_place(error, sample);
    }
  };
}

}  // namespace lockstep::data
