#include "data/pictures/transform.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "core/error.h"
#include "core/rng.h"
#include "data/pictures/image_codecs.h"

namespace lockstep::data {
namespace {

constexpr int kCropAttempts = 10;
/// Above this share of the picture's pixels there is too little to save; below it the partial decode never was the
/// slower one.
constexpr double kPartialDecodeShare = 0.9;

/// Half to even, as Python's round().
int round_half_even(double value) { return static_cast<int>(std::nearbyint(value)); }

Region central_crop(int width, int height, const TransformConfig& config) {
  const double ratio = static_cast<double>(width) / height;
  int w = width, h = height;
  if (ratio < config.ratio_min) h = round_half_even(w / config.ratio_min);
  if (ratio > config.ratio_max) w = round_half_even(h * config.ratio_max);
  return {(width - w) / 2, (height - h) / 2, w, h};
}

Region random_crop(int width, int height, const TransformConfig& config, core::CounterRng& rng) {
  const double area = static_cast<double>(width) * height;
  const double log_min = std::log(config.ratio_min), log_max = std::log(config.ratio_max);
  for (int attempt = 0; attempt < kCropAttempts; ++attempt) {
    const double target_area = area * rng.uniform(config.scale_min, config.scale_max);
    const double ratio = std::exp(rng.uniform(log_min, log_max));
    const int w = round_half_even(std::sqrt(target_area * ratio)), h = round_half_even(std::sqrt(target_area / ratio));
    if (w <= 0 || w > width || h <= 0 || h > height) continue;
    const int y = static_cast<int>(rng.below(static_cast<uint64_t>(height - h) + 1));
    const int x = static_cast<int>(rng.below(static_cast<uint64_t>(width - w) + 1));
    return {x, y, w, h};
  }
  return central_crop(width, height, config);
}

/// First coordinate kept and its place in the result when `size` pixels are cut to, or padded to, `wanted`.
struct CentreFit {
  int first, count, offset;
};
CentreFit fit_centre(int size, int wanted) {
  if (size >= wanted) return {round_half_even((size - wanted) / 2.0), wanted, 0};
  return {0, size, (wanted - size) / 2};
}

/// Python's int(pixels * a / b): one correctly rounded division, then truncation.
int64_t scaled_side(int pixels, int a, int b) {
  return static_cast<int64_t>(static_cast<double>(int64_t{pixels} * a) / b);
}

TransformPlan plan_evaluation(int width, int height, const TransformConfig& config) {
  const int pixels = config.image_pixels;
  TransformPlan plan;
  plan.resize = {.source = {0, 0, width, height},
                 .width = pixels,
                 .height = pixels,
                 .window = {0, 0, pixels, pixels},
                 .filter = config.filter,
                 .order = config.pass_order};
  if (config.resize_mode == ResizeMode::kSquash) return plan;
  int64_t new_width = pixels, new_height = pixels;
  if (config.resize_mode == ResizeMode::kShortest) {
    const int shortest = config.resize_pixels > 0 ? config.resize_pixels : pixels;
    new_width = width <= height ? shortest : scaled_side(shortest, width, height);
    new_height = width <= height ? scaled_side(shortest, height, width) : shortest;
  } else {
    const double ratio = std::max(static_cast<double>(height) / pixels, static_cast<double>(width) / pixels);
    // A side below half a pixel would vanish; Pillow refuses it, one row or column is the nearest picture.
    new_width = std::max(1, round_half_even(width / ratio));
    new_height = std::max(1, round_half_even(height / ratio));
  }
  constexpr int64_t kMaxSide = int64_t{1} << 30;
  if (new_width > kMaxSide || new_height > kMaxSide) {
    throw DataError(fmt::format("data: a picture of {} x {} pixels is too long to be resized to {} x {}", width, height,
                                new_width, new_height),
                    "leave it out, or use the resize mode squash");
  }
  plan.resize.width = static_cast<int>(new_width);
  plan.resize.height = static_cast<int>(new_height);
  const CentreFit x = fit_centre(plan.resize.width, pixels), y = fit_centre(plan.resize.height, pixels);
  plan.resize.window = {x.first, y.first, x.count, y.count};
  plan.offset_x = x.offset;
  plan.offset_y = y.offset;
  return plan;
}

void mirror_rows(std::span<uint8_t> rgb_YXC, size_t width) {
  const size_t row_bytes = width * 3;
  for (size_t row = 0; row < rgb_YXC.size(); row += row_bytes) {
    for (size_t left = 0, right = width - 1; left < right; ++left, --right) {
      std::swap_ranges(rgb_YXC.begin() + static_cast<ptrdiff_t>(row + left * 3),
                       rgb_YXC.begin() + static_cast<ptrdiff_t>(row + left * 3 + 3),
                       rgb_YXC.begin() + static_cast<ptrdiff_t>(row + right * 3));
    }
  }
}

void run_plan(const TransformPlan& plan, const Resizer& resizer, const Image& part, const Region& held,
              const TransformConfig& config, std::span<uint8_t> out_YXC, TransformScratch& scratch) {
  const size_t side = static_cast<size_t>(config.image_pixels), stride = side * 3;
  LOCKSTEP_CHECK(out_YXC.size() == side * stride, "out has {} bytes, expected {}", out_YXC.size(), side * stride);
  const Region& window = plan.resize.window;
  if (window.width < config.image_pixels || window.height < config.image_pixels) {
    std::fill(out_YXC.begin(), out_YXC.end(), config.fill_color);
  }
  uint8_t* out = out_YXC.data() + static_cast<size_t>(plan.offset_y) * stride + static_cast<size_t>(plan.offset_x) * 3;
  resizer.run(part, held, out, stride, scratch.resize);
  if (plan.is_flipped) mirror_rows(out_YXC, side);
}

/// The largest reduction that leaves at least as many pixels as the result has.
int jpeg_divisor(const ResizeSpec& resize) {
  for (const int divisor : {8, 4, 2})
    if (resize.source.width >= divisor * resize.width && resize.source.height >= divisor * resize.height)
      return divisor;
  return 1;
}

/// The pixels of a reduced axis that cover `size` pixels of the whole from `first` on, and where among them they lie.
struct ReducedAxis {
  int first, count;
  AxisBox box;
};
ReducedAxis reduced_axis(int first, int size, int divisor) {
  const int begin = first / divisor, end = (first + size + divisor - 1) / divisor;
  return {begin, end - begin, {static_cast<double>(first) / divisor - begin, static_cast<double>(size) / divisor}};
}

/// The same part of a picture of 1 / divisor of the size.
ResizeSpec reduced(ResizeSpec resize, int divisor) {
  const ReducedAxis x = reduced_axis(resize.source.x, resize.source.width, divisor),
                    y = reduced_axis(resize.source.y, resize.source.height, divisor);
  resize.source = {x.first, y.first, x.count, y.count};
  resize.box_x = x.box;
  resize.box_y = y.box;
  return resize;
}

}  // namespace

TransformConfig imagenet_transform(bool is_train, int image_pixels, int resize_pixels) {
  TransformConfig config{.image_pixels = image_pixels, .is_train = is_train};
  config.scale_min = 0.08;
  config.flip_probability = 0.5;
  config.filter = ResizeFilter::kBilinear;
  config.resize_pixels = resize_pixels > 0 ? resize_pixels : image_pixels * 8 / 7;
  config.mean = {0.485f, 0.456f, 0.406f};
  config.std = {0.229f, 0.224f, 0.225f};
  return config;
}

void check_transform(const TransformConfig& config) {
  const auto refuse = [](std::string_view what, const std::string& seen, std::string_view expected) {
    throw UsageError(fmt::format("data: {} is {}, expected {}", what, seen, expected));
  };
  if (config.image_pixels < 1 || config.image_pixels > 8192)
    refuse("the image size", fmt::to_string(config.image_pixels), "1 to 8192 pixels");
  if (config.resize_pixels != 0 && (config.resize_pixels < config.image_pixels || config.resize_pixels > 8192))
    refuse("the size before the centre crop", fmt::to_string(config.resize_pixels),
           fmt::format("{} to 8192 pixels", config.image_pixels));
  if (!(config.scale_min > 0 && config.scale_min <= config.scale_max && config.scale_max <= 1)) {
    refuse("the crop scale", fmt::format("{} to {}", config.scale_min, config.scale_max), "0 < low <= high <= 1");
  }
  if (!(config.ratio_min > 0 && config.ratio_min <= config.ratio_max && std::isfinite(config.ratio_max))) {
    refuse("the crop ratio", fmt::format("{} to {}", config.ratio_min, config.ratio_max), "0 < low <= high");
  }
  if (!(config.flip_probability >= 0 && config.flip_probability <= 1)) {
    refuse("the flip probability", fmt::to_string(config.flip_probability), "0 to 1");
  }
  for (const float deviation : config.std) {
    if (!(deviation > 0)) refuse("the image std", fmt::to_string(deviation), "above 0");
  }
}

TransformPlan plan_transform(int width, int height, const TransformConfig& config, uint64_t rng_key) {
  if (!config.is_train) return plan_evaluation(width, height, config);
  core::CounterRng rng(rng_key);
  const int pixels = config.image_pixels;
  TransformPlan plan;
  plan.resize = {.source = random_crop(width, height, config, rng),
                 .width = pixels,
                 .height = pixels,
                 .window = {0, 0, pixels, pixels},
                 .filter = config.filter,
                 .order = config.pass_order};
  plan.is_flipped = config.flip_probability > 0 && rng.uniform() < config.flip_probability;
  return plan;
}

void apply(const Image& image, const TransformConfig& config, uint64_t rng_key, std::span<uint8_t> out_YXC,
           TransformScratch& scratch) {
  const TransformPlan plan = plan_transform(image.width, image.height, config, rng_key);
  run_plan(plan, Resizer(plan.resize), image, {0, 0, image.width, image.height}, config, out_YXC, scratch);
}

void apply_encoded(std::span<const std::byte> bytes, std::string_view name, const TransformConfig& config,
                   uint64_t rng_key, std::span<uint8_t> out_YXC, TransformScratch& scratch) {
  if (detect_image_format(bytes, name) != ImageFormat::kJpeg) {
    decode_image_into(bytes, name, config.limits, scratch.image);
    apply(scratch.image, config, rng_key, out_YXC, scratch);
    return;
  }
  JpegReader reader(bytes, name, config.limits);
  TransformPlan plan = plan_transform(reader.width(), reader.height(), config, rng_key);
  const int divisor = config.jpeg_decode == JpegDecode::kScaled ? jpeg_divisor(plan.resize) : 1;
  if (divisor > 1) {
    reader.reduce(divisor);
    plan.resize = reduced(plan.resize, divisor);
  }
  const Resizer resizer(plan.resize);
  const Region& needed = resizer.needed();
  const double share =
      static_cast<double>(needed.width) * needed.height / (static_cast<double>(reader.width()) * reader.height());
  Region held{0, 0, reader.width(), reader.height()};
  if (share < kPartialDecodeShare && reader.can_read_region())
    held = reader.read_region(needed, scratch.image);
  else
    reader.read_all(scratch.image);
  run_plan(plan, resizer, scratch.image, held, config, out_YXC, scratch);
}

}  // namespace lockstep::data
