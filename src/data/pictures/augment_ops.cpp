#include "data/pictures/augment_ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace lockstep::data {
namespace {

constexpr size_t kNumValues = 256;
using ByteMap = std::array<uint8_t, kNumValues>;

/// Output pixel (x, y) comes from (a x + b y + c, d x + e y + f), pixel centres at 0.5.
struct AffineMap {
  double a, b, c, d, e, f;
};

double radians(double degrees) { return degrees * (std::numbers::pi / 180.0); }
double degrees(double angle) { return angle * (180.0 / std::numbers::pi); }

/// torchvision's _get_inverse_affine_matrix without rotation and scale, in the order of its roundings.
AffineMap inverse_map(double centre_x, double centre_y, double shift_x, double shift_y, double shear_x_degrees,
                      double shear_y_degrees) {
  const double sx = radians(shear_x_degrees), sy = radians(shear_y_degrees);
  const double a = std::cos(-sy) / std::cos(sy), b = -std::cos(-sy) * std::tan(sx) / std::cos(sy),
               c = std::sin(-sy) / std::cos(sy), d = -std::sin(-sy) * std::tan(sx) / std::cos(sy) + 1.0;
  AffineMap map{d, -b, 0.0, -c, a, 0.0};
  map.c += map.a * (-centre_x - shift_x) + map.b * (-centre_y - shift_y);
  map.f += map.d * (-centre_x - shift_x) + map.e * (-centre_y - shift_y);
  map.c += centre_x;
  map.f += centre_y;
  return map;
}

/// Python's round(value, 15).
double round_15(double value) { return std::stod(fmt::format("{:.15f}", value)); }

/// Pillow's Image.rotate about the centre.
AffineMap rotation_map(double angle_degrees, int width, int height) {
  const double angle = -radians(angle_degrees);
  const double cosine = round_15(std::cos(angle)), sine = round_15(std::sin(angle));
  AffineMap map{cosine, sine, 0.0, round_15(-std::sin(angle)), cosine, 0.0};
  const double x = width / 2.0, y = height / 2.0;
  map.c = map.a * -x + map.b * -y + 0.0 + x;
  map.f = map.d * -x + map.e * -y + 0.0 + y;
  return map;
}

/// Whether the map keeps columns and rows apart, as shifts do: Pillow then steps along each in double precision.
bool is_separate(const AffineMap& map) { return map.b == 0 && map.d == 0; }

void map_nearest(const AffineMap& map, const uint8_t* in, PixelRows out) {
  const auto copy = [&](int x, int y, int64_t from_x, int64_t from_y) {
    uint8_t* target =
        out.rgb_YXC.data() + (static_cast<size_t>(y) * static_cast<size_t>(out.width) + static_cast<size_t>(x)) * 3;
    const bool is_inside = from_x >= 0 && from_x < out.width && from_y >= 0 && from_y < out.height;
    for (size_t channel = 0; channel < 3; ++channel)
      target[channel] = is_inside ? in[static_cast<size_t>(from_y * out.width + from_x) * 3 + channel] : uint8_t{0};
  };
  if (is_separate(map)) {
    const auto coordinate = [](double value) { return value < 0 ? -1 : static_cast<int64_t>(value); };
    double from_y = map.f + map.e * 0.5;
    for (int y = 0; y < out.height; ++y, from_y += map.e) {
      double from_x = map.c + map.a * 0.5;
      for (int x = 0; x < out.width; ++x, from_x += map.a) copy(x, y, coordinate(from_x), coordinate(from_y));
    }
    return;
  }
  const auto fixed = [](double value) { return static_cast<int64_t>(std::floor(value * 65536.0 + 0.5)); };
  const int64_t a = fixed(map.a), b = fixed(map.b), d = fixed(map.d), e = fixed(map.e);
  int64_t row_x = fixed(map.c + map.a * 0.5 + map.b * 0.5), row_y = fixed(map.f + map.d * 0.5 + map.e * 0.5);
  for (int y = 0; y < out.height; ++y, row_x += b, row_y += e) {
    int64_t from_x = row_x, from_y = row_y;
    for (int x = 0; x < out.width; ++x, from_x += a, from_y += d) copy(x, y, from_x >> 16, from_y >> 16);
  }
}

void map_bilinear(const AffineMap& map, const uint8_t* in, PixelRows out) {
  const auto pixel = [&](int x, int y) {
    return in + (static_cast<size_t>(std::clamp(y, 0, out.height - 1)) * static_cast<size_t>(out.width) +
                 static_cast<size_t>(std::clamp(x, 0, out.width - 1))) *
                    3;
  };
  uint8_t* target = out.rgb_YXC.data();
  for (int y = 0; y < out.height; ++y) {
    for (int x = 0; x < out.width; ++x, target += 3) {
      const double from_x = map.a * (x + 0.5) + map.b * (y + 0.5) + map.c;
      const double from_y = map.d * (x + 0.5) + map.e * (y + 0.5) + map.f;
      if (!(from_x >= 0 && from_x < out.width && from_y >= 0 && from_y < out.height)) {
        std::fill_n(target, 3, uint8_t{0});
        continue;
      }
      const int left = static_cast<int>(std::floor(from_x - 0.5)), top = static_cast<int>(std::floor(from_y - 0.5));
      const double dx = from_x - 0.5 - left, dy = from_y - 0.5 - top;
      const uint8_t *a = pixel(left, top), *b = pixel(left + 1, top), *c = pixel(left, top + 1),
                    *d = pixel(left + 1, top + 1);
      for (size_t channel = 0; channel < 3; ++channel) {
        const double upper = a[channel] + (b[channel] - a[channel]) * dx;
        const double lower = top + 1 < out.height ? c[channel] + (d[channel] - c[channel]) * dx : upper;
        target[channel] = static_cast<uint8_t>(upper + (lower - upper) * dy);
      }
    }
  }
}

void apply_map(const AffineMap& map, bool interpolates, PixelRows picture, AugmentScratch& scratch) {
  scratch.assign(picture.rgb_YXC.begin(), picture.rgb_YXC.end());
  (interpolates ? map_bilinear : map_nearest)(map, scratch.data(), picture);
}

void apply_bytes(const ByteMap& map, PixelRows picture) {
  for (uint8_t& value : picture.rgb_YXC) value = map[value];
}

/// A map of its own for each channel, from its histogram.
template <typename MakeMap> void apply_histograms(PixelRows picture, const MakeMap& make_map) {
  std::array<std::array<int64_t, kNumValues>, 3> counts{};
  const std::span<uint8_t> bytes = picture.rgb_YXC;
  for (size_t i = 0; i < bytes.size(); ++i) ++counts[i % 3][bytes[i]];
  std::array<ByteMap, 3> maps;
  for (size_t channel = 0; channel < 3; ++channel) maps[channel] = make_map(counts[channel]);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = maps[i % 3][bytes[i]];
}

ByteMap same_bytes() {
  ByteMap map;
  for (size_t i = 0; i < kNumValues; ++i) map[i] = static_cast<uint8_t>(i);
  return map;
}

/// The darkest value present becomes 0, the lightest 255.
ByteMap contrast_map(const std::array<int64_t, kNumValues>& counts) {
  ByteMap map = same_bytes();
  size_t low = 0, high = kNumValues - 1;
  while (low < high && counts[low] == 0) ++low;
  while (high > low && counts[high] == 0) --high;
  if (high <= low) return map;
  const double scale = 255.0 / static_cast<double>(high - low), offset = -static_cast<double>(low) * scale;
  for (size_t i = 0; i < kNumValues; ++i)
    map[i] = static_cast<uint8_t>(std::clamp(std::trunc(static_cast<double>(i) * scale + offset), 0.0, 255.0));
  return map;
}

/// All values become about equally frequent.
ByteMap equal_map(const std::array<int64_t, kNumValues>& counts) {
  int64_t total = 0, last = 0, num_present = 0;
  for (const int64_t count : counts) {
    total += count;
    if (count == 0) continue;
    last = count;
    ++num_present;
  }
  const int64_t step = (total - last) / 255;
  if (num_present <= 1 || step == 0) return same_bytes();
  ByteMap map;
  int64_t sum = step / 2;
  for (size_t i = 0; i < kNumValues; ++i) {
    map[i] = static_cast<uint8_t>(std::min<int64_t>(255, sum / step));
    sum += counts[i];
  }
  return map;
}

uint8_t grey_of(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

/// Pillow's blend: from `base` at factor 0 over `value` at 1 and beyond.
uint8_t blend(uint8_t base, uint8_t value, float factor) {
  const float mixed = static_cast<float>(base) + factor * static_cast<float>(value - base);
  return static_cast<uint8_t>(std::clamp(mixed, 0.0f, 255.0f));
}

void blend_black(float factor, PixelRows picture) {
  for (uint8_t& value : picture.rgb_YXC) value = blend(0, value, factor);
}

void blend_grey(float factor, PixelRows picture) {
  for (size_t i = 0; i < picture.rgb_YXC.size(); i += 3) {
    uint8_t* rgb = picture.rgb_YXC.data() + i;
    const uint8_t grey = grey_of(rgb);
    for (size_t channel = 0; channel < 3; ++channel) rgb[channel] = blend(grey, rgb[channel], factor);
  }
}

void blend_mean(float factor, PixelRows picture) {
  uint64_t sum = 0;
  for (size_t i = 0; i < picture.rgb_YXC.size(); i += 3) sum += grey_of(picture.rgb_YXC.data() + i);
  const size_t num_pixels = picture.rgb_YXC.size() / 3;
  const auto mean = static_cast<uint8_t>(static_cast<double>(sum) / static_cast<double>(num_pixels) + 0.5);
  for (uint8_t& value : picture.rgb_YXC) value = blend(mean, value, factor);
}

/// The base is Pillow's SMOOTH: the pixel 5 times and its 8 neighbours once; the picture's border stays.
void blend_smooth(float factor, PixelRows picture, AugmentScratch& scratch) {
  scratch.assign(picture.rgb_YXC.begin(), picture.rgb_YXC.end());
  const size_t stride = static_cast<size_t>(picture.width) * 3;
  for (int y = 1; y + 1 < picture.height; ++y) {
    for (size_t i = 3; i + 3 < stride; ++i) {
      const size_t at = static_cast<size_t>(y) * stride + i;
      const uint8_t* in = scratch.data() + at;
      int sum = 4 * in[0];
      for (const uint8_t* row : {in - stride, in, in + stride}) sum += row[-3] + row[0] + row[3];
      picture.rgb_YXC[at] = blend(static_cast<uint8_t>((2 * sum + 13) / 26), in[0], factor);
    }
  }
}

void posterize(int bits, PixelRows picture) {
  const auto mask = static_cast<uint8_t>(~((1 << (8 - bits)) - 1));
  for (uint8_t& value : picture.rgb_YXC) value &= mask;
}

void solarize(double threshold, PixelRows picture) {
  ByteMap map = same_bytes();
  for (size_t i = 0; i < kNumValues; ++i)
    if (static_cast<double>(i) >= threshold) map[i] = static_cast<uint8_t>(255 - i);
  apply_bytes(map, picture);
}

/// Hue, saturation and value, each in 0 .. 255, in single and double precision as Pillow has it.
struct Hsv {
  uint8_t hue = 0, saturation = 0, value = 0;
};

Hsv hsv_of(const uint8_t* rgb) {
  const uint8_t high = std::max({rgb[0], rgb[1], rgb[2]}), low = std::min({rgb[0], rgb[1], rgb[2]});
  if (high == low) return {.value = high};
  const auto range = static_cast<float>(high - low);
  const auto below = [&](int channel) { return static_cast<float>(high - rgb[channel]) / range; };
  const float red = below(0), green = below(1), blue = below(2);
  float sextant = blue - green;
  if (rgb[0] != high)
    sextant = static_cast<float>(rgb[1] == high ? 2.0 + static_cast<double>(red) - static_cast<double>(blue)
                                                : 4.0 + static_cast<double>(green) - static_cast<double>(red));
  const auto turn = static_cast<float>(std::fmod(static_cast<double>(sextant) / 6.0 + 1.0, 1.0));
  const auto byte = [](float fraction) { return static_cast<uint8_t>(static_cast<double>(fraction) * 255.0); };
  return {byte(turn), byte(range / static_cast<float>(high)), high};
}

void write_rgb(const Hsv& hsv, uint8_t* rgb) {
  const double sextant = static_cast<double>(static_cast<float>(hsv.hue)) * 6.0 / 255.0;
  const auto whole = static_cast<int>(std::floor(sextant));
  const auto part = static_cast<float>(sextant - static_cast<double>(whole));
  const auto saturation = static_cast<float>(static_cast<double>(hsv.saturation) / 255.0);
  const auto level = [&](double less) {
    return static_cast<uint8_t>(std::clamp(std::round(static_cast<double>(hsv.value) * (1.0 - less)), 0.0, 255.0));
  };
  const uint8_t low = level(static_cast<double>(saturation)), falling = level(static_cast<double>(saturation * part)),
                rising = level(static_cast<double>(saturation) * (1.0 - static_cast<double>(part)));
  const std::array<std::array<uint8_t, 3>, 6> colours{{{hsv.value, rising, low},
                                                       {falling, hsv.value, low},
                                                       {low, hsv.value, rising},
                                                       {low, falling, hsv.value},
                                                       {rising, low, hsv.value},
                                                       {hsv.value, low, falling}}};
  std::copy_n(colours[static_cast<size_t>(whole % 6)].begin(), 3, rgb);
}

void turn_hue(double turn, PixelRows picture) {
  const auto steps = static_cast<uint8_t>(static_cast<int32_t>(turn * 255.0));
  for (size_t i = 0; i < picture.rgb_YXC.size(); i += 3) {
    uint8_t* rgb = picture.rgb_YXC.data() + i;
    Hsv hsv = hsv_of(rgb);
    hsv.hue = static_cast<uint8_t>(hsv.hue + steps);
    write_rgb(hsv, rgb);
  }
}

void rotate(double angle, bool interpolates, PixelRows picture, AugmentScratch& scratch) {
  const double turn = angle - 360.0 * std::floor(angle / 360.0);
  if (turn != 0) apply_map(rotation_map(turn, picture.width, picture.height), interpolates, picture, scratch);
}

}  // namespace

void apply_augment_op(AugmentOp op, double magnitude, bool interpolates, PixelRows picture, AugmentScratch& scratch) {
  LOCKSTEP_CHECK(
      picture.width > 0 && picture.height > 0 &&
          picture.rgb_YXC.size() == static_cast<size_t>(picture.width) * static_cast<size_t>(picture.height) * 3,
      "{} bytes of {} x {}", picture.rgb_YXC.size(), picture.width, picture.height);
  const double x = picture.width * 0.5, y = picture.height * 0.5, shift = std::trunc(magnitude);
  const double shear = degrees(std::atan(magnitude));
  const auto factor = static_cast<float>(1.0 + magnitude);
  const auto move = [&](const AffineMap& map) { apply_map(map, interpolates, picture, scratch); };
  switch (op) {
    case AugmentOp::kIdentity: return;
    case AugmentOp::kShearX: return move(inverse_map(0, 0, 0, 0, shear, 0));
    case AugmentOp::kShearY: return move(inverse_map(0, 0, 0, 0, 0, shear));
    case AugmentOp::kTranslateX: return move(inverse_map(x, y, shift, 0, 0, 0));
    case AugmentOp::kTranslateY: return move(inverse_map(x, y, 0, shift, 0, 0));
    case AugmentOp::kRotate: return rotate(magnitude, interpolates, picture, scratch);
    case AugmentOp::kBrightness: return blend_black(factor, picture);
    case AugmentOp::kColor: return blend_grey(factor, picture);
    case AugmentOp::kContrast: return blend_mean(factor, picture);
    case AugmentOp::kSharpness: return blend_smooth(factor, picture, scratch);
    case AugmentOp::kPosterize: return posterize(static_cast<int>(magnitude), picture);
    case AugmentOp::kSolarize: return solarize(magnitude, picture);
    case AugmentOp::kAutoContrast: return apply_histograms(picture, contrast_map);
    case AugmentOp::kEqualize: return apply_histograms(picture, equal_map);
    case AugmentOp::kInvert: return solarize(0, picture);
    case AugmentOp::kHue: return turn_hue(magnitude, picture);
  }
}

}  // namespace lockstep::data
