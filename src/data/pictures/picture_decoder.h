#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/pictures/augment.h"
#include "data/pictures/transform.h"
#include "data/shards/sample.h"

namespace lockstep::data {

struct PictureDecoderConfig {
  TransformConfig transform;
  AugmentConfig augment = {};
  std::vector<std::string> image_keys = default_image_keys();  ///< Tried in this order.
  uint64_t seed = 0;                                           ///< With RawSample::id it keys all that is random.
};

/// The picture of `sample` as transform and augmentation make it, image_pixels x image_pixels x 3 bytes in out_YXC.
/// DataError where the sample has none, or one that cannot be decoded; without the sample's place.
void decode_picture(const RawSample& sample, const PictureDecoderConfig& config, std::span<uint8_t> out_YXC);

/// Picture -> pixels; the label passes through. A sample without a picture, or with one that cannot be decoded, throws
/// DataError with its place.
SampleDecoder make_picture_decoder(const PictureDecoderConfig& config);

}  // namespace lockstep::data
