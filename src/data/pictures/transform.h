#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "data/pictures/image.h"
#include "data/pictures/resize.h"

namespace lockstep::data {

/// How a picture that is not square becomes one in evaluation.
enum class ResizeMode {
  kShortest,  ///< Shortest side to image_pixels, then the centre is cut out.
  kLongest,   ///< Longest side to image_pixels, then padded on both sides with fill_color.
  kSquash,    ///< Both sides to image_pixels, whatever the ratio.
};

/// How JPEG pictures are decoded.
enum class JpegDecode {
  kExact,   ///< Each pixel that the result depends on, in full.
  kScaled,  ///< At a half, a quarter or an eighth of their size, as long as that is no less than the result's.
};

/// Random or fixed way from a decoded picture to image_pixels x image_pixels bytes. Defaults are OpenCLIP's.
struct TransformConfig {
  int image_pixels = 224;  ///< Side of the square result.
  bool is_train = false;   ///< true: random resized crop; false: resize_mode.
  double scale_min = 0.9;  ///< Crop area as a fraction of the picture's, train only.
  double scale_max = 1.0;
  double ratio_min = 3.0 / 4.0;  ///< Width over height of the crop, train only.
  double ratio_max = 4.0 / 3.0;
  double flip_probability = 0.0;  ///< Mirror left and right, train only (ResNet recipes: 0.5).
  ResizeFilter filter = ResizeFilter::kBicubic;
  ResizeMode resize_mode = ResizeMode::kShortest;  ///< Evaluation only.
  int resize_pixels = 0;   ///< kShortest: the shortest side before the centre is cut out; 0: image_pixels.
  uint8_t fill_color = 0;  ///< All three channels, kLongest only.
  PassOrder pass_order = PassOrder::kPillow13;
  DecodeLimits limits = {};
  JpegDecode jpeg_decode = JpegDecode::kExact;
  /// Carried for those who turn bytes into floats, (x / 255 - mean) / std; not applied here.
  std::array<float, 3> mean{0.48145466f, 0.4578275f, 0.40821073f};
  std::array<float, 3> std{0.26862954f, 0.26130258f, 0.27577711f};
};

/// What torchvision's ImageNet recipes do: bilinear; train: crops of 8 to 100 % of the area, half of them mirrored;
/// evaluation: the shortest side to resize_pixels, then the centre. With ImageNet's mean and deviation. Without
/// resize_pixels (0) it is 8/7 of image_pixels: 256 of 224.
TransformConfig imagenet_transform(bool is_train, int image_pixels = 224, int resize_pixels = 0);

/// Throws UsageError that names the member, its value and the range.
void check_transform(const TransformConfig& config);

/// Everything about one application that depends on the picture's size and the key: which pixels are resized to what,
/// which part of that is kept, and where it lies in the result.
struct TransformPlan {
  ResizeSpec resize;
  int offset_x = 0, offset_y = 0;  ///< Of resize.window in the result; what is outside has fill_color.
  bool is_flipped = false;
};

/// Train: RandomResizedCrop as torchvision computes it (10 attempts, area uniform, ratio log-uniform, then the central
/// crop), the draws a function of rng_key alone, so that callers make it from (seed, epoch, sample, purpose) with
/// core::stream_key. Evaluation: torchvision's Resize + CenterCrop, or OpenCLIP's squash and longest, with their
/// rounding; rng_key is not used.
TransformPlan plan_transform(int width, int height, const TransformConfig& config, uint64_t rng_key);

/// Memory kept between calls of one thread.
struct TransformScratch {
  Image image;
  ResizeScratch resize;
};

/// Writes image_pixels x image_pixels x 3 bytes to out_YXC (exactly that size).
void apply(const Image& image, const TransformConfig& config, uint64_t rng_key, std::span<uint8_t> out_YXC,
           TransformScratch& scratch);

/// Decode and apply in one go, with the same bytes as the two steps. Of a JPEG only the part the result needs is
/// decoded where that is exact and saves enough; damage in the part left out is then not noticed (a file cut short
/// always is). With JpegDecode::kScaled the bytes differ from those: docs/imagenet.md says by how much.
void apply_encoded(std::span<const std::byte> bytes, std::string_view name, const TransformConfig& config,
                   uint64_t rng_key, std::span<uint8_t> out_YXC, TransformScratch& scratch);

}  // namespace lockstep::data
