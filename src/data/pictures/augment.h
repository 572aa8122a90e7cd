#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/pictures/augment_ops.h"
#include "data/pictures/image_types.h"

namespace lockstep::data {

/// A published way to draw operations.
enum class AugmentPolicy {
  kNone,
  kAutoAugment,     ///< The pairs that AutoAugment learned for ImageNet.
  kRandAugment,     ///< num_ops operations, each at the same magnitude.
  kTrivialAugment,  ///< TrivialAugment Wide: one operation at any magnitude.
};
/// "none", or as torchvision's reference scripts call them: "imagenet", "ra", "ta_wide"; UsageError with the names.
AugmentPolicy parse_augment_policy(const std::string& name);

/// What happens to a picture after crop, resize and mirroring. Defaults are torchvision's.
struct AugmentConfig {
  AugmentPolicy policy = AugmentPolicy::kNone;
  int num_ops = 2;           ///< kRandAugment only.
  int magnitude = 9;         ///< Of 0 .. 30; kRandAugment only.
  bool interpolates = true;  ///< Bilinear, as the reference scripts do; false: the nearest pixel, the classes' default.
  /// Largest change of brightness, contrast, saturation and hue (the last up to 0.5), in random order, as torchvision's
  /// ColorJitter draws them.
  std::array<double, 4> jitter{};
  double jitter_probability = 0;
  double grey_probability = 0;  ///< Behind the jitter: the picture without its colours.
  double erase_probability = 0;
  /// What an erased part holds: ImageNet's mean, rounded, so that it is within 0.01 of zero after normalisation.
  std::array<uint8_t, 3> erase_color{124, 116, 104};
};
/// Throws UsageError that names the member, its value and the range.
void check_augment(const AugmentConfig& config);

struct AugmentStep {
  AugmentOp op = AugmentOp::kIdentity;
  double magnitude = 0;  ///< As apply_augment_op takes it.
};
/// The operations on a picture of width x height, as torchvision's classes draw them; a function of rng_key alone.
std::vector<AugmentStep> plan_augment(const AugmentConfig& config, int width, int height, uint64_t rng_key);
/// The operations of jitter and grey, likewise.
std::vector<AugmentStep> plan_colours(const AugmentConfig& config, uint64_t rng_key);
/// The part that torchvision's RandomErasing (2 to 33 % of the area, ratio 0.3 to 3.3) takes; width 0: none.
Region plan_erase(const AugmentConfig& config, int width, int height, uint64_t rng_key);

/// All three, in place.
void augment(const AugmentConfig& config, uint64_t rng_key, PixelRows picture, AugmentScratch& scratch);

}  // namespace lockstep::data
