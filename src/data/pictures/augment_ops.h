#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::data {

/// The operations that the published augmentation policies are made of.
enum class AugmentOp {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize,
  kInvert,
  kHue,
};

/// Memory kept between calls of one thread.
using AugmentScratch = std::vector<uint8_t>;

/// A square or other picture that is changed where it lies: rows of width x 3 bytes.
struct PixelRows {
  std::span<uint8_t> rgb_YXC;
  int width = 0, height = 0;
};

/// torchvision's _apply_op on a Pillow picture, byte for byte (Pillow 13.0): `magnitude` is the shear, the shift in
/// pixels (its fraction is cut off), the angle in degrees, the factor less one, the bits kept, the threshold, or the
/// turn of the hue as a fraction of the circle (torchvision's adjust_hue). Operations that move pixels interpolate, or
/// take the nearest one; what comes from outside is black.
void apply_augment_op(AugmentOp op, double magnitude, bool interpolates, PixelRows picture, AugmentScratch& scratch);

}  // namespace lockstep::data
