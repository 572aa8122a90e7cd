#include "data/pictures/clip_decoder.h"

#include <utility>

#include "core/hash.h"
#include "core/rng.h"

namespace lockstep::data {

SampleDecoder make_clip_decoder(const ClipDecoderConfig& config, TextEncoder encoder) {
  check_transform(config.transform);
  check_augment(config.augment);
  const auto read_caption = [config, encoder = std::move(encoder)](const RawSample& sample, SampleSlot& slot) {
    if (config.json_keys.keys.empty())
      return encoder(sample.require(config.text_keys, "caption", "--text-key").bytes, slot.text_T);
    const std::vector<std::string> json = {"json"};
    const uint64_t draw_key = core::stream_key({config.seed, core::stable_hash("caption"), sample.id});
    encoder(json_caption(sample.require(json, "caption", "--text-key").bytes, config.json_keys, draw_key), slot.text_T);
  };
  return [picture = config.picture(), read_caption](const RawSample& sample, SampleSlot& slot) {
    try {
      if (!slot.image_YXC.empty()) decode_picture(sample, picture, slot.image_YXC);
      if (!slot.text_T.empty()) read_caption(sample, slot);
    } catch (const DataError& error) {
      rethrow_with_place(error, sample);
    }
  };
}

}  // namespace lockstep::data
