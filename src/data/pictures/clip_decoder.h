#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/pictures/picture_decoder.h"
#include "data/shards/sample.h"
#include "data/text/json_caption.h"
#include "data/text/text_encoder.h"

namespace lockstep::data {

struct ClipDecoderConfig {
  TransformConfig transform;
  AugmentConfig augment = {};
  std::vector<std::string> image_keys = default_image_keys();  ///< Tried in this order.
  std::vector<std::string> text_keys = {"txt"};
  JsonCaptionKeys json_keys = {};  ///< With keys: the caption is in the .json member.
  uint64_t seed = 0;               ///< With the sample's position in the stream it keys what is drawn.
  PictureDecoderConfig picture() const {
    return {.transform = transform, .augment = augment, .image_keys = image_keys, .seed = seed};
  }
};

/// Picture -> crop and resize, caption -> token ids, as OpenCLIP's pipeline does. A slot without image or text space
/// leaves that part out. A sample without the member, an undecodable picture or text throws DataError with shard,
/// offset and key.
SampleDecoder make_clip_decoder(const ClipDecoderConfig& config, TextEncoder encoder);

}  // namespace lockstep::data
