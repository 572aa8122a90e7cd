#include "data/pictures/clip_decoder.h"

#include <utility>

namespace lockstep::data {

SampleDecoder make_clip_decoder(const ClipDecoderConfig& config, TextEncoder encoder) {
  check_transform(config.transform);
  check_augment(config.augment);
  return [config, picture = config.picture(), encoder = std::move(encoder)](const RawSample& sample, SampleSlot& slot) {
    try {
      if (!slot.image_YXC.empty()) decode_picture(sample, picture, slot.image_YXC);
      if (!slot.text_T.empty()) encoder(sample.require(config.text_keys, "caption", "--text-key").bytes, slot.text_T);
    } catch (const DataError& error) {
      rethrow_with_place(error, sample);
    }
  };
}

}  // namespace lockstep::data
