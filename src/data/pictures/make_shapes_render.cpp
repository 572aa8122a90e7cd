#include <algorithm>
#include <cmath>

#include "data/pictures/image_codecs.h"
#include "data/pictures/make_shapes_scene.h"

namespace lockstep::data {
namespace {

/// Distance to the edge of an axis-aligned box, negative inside (exact but for the outside of corners, which
/// antialiasing does not see).
float box_distance(float x, float y, float half_width, float half_height) {
  return std::max(std::abs(x) - half_width, std::abs(y) - half_height);
}

/// Signed distance of a point to the edge of a shape of circumradius 1, negative inside.
float shape_distance(Shape shape, float x, float y) {
  switch (shape) {
    case Shape::kCircle: return std::sqrt(x * x + y * y) - 0.92f;
    case Shape::kRing: return std::abs(std::sqrt(x * x + y * y) - 0.74f) - 0.2f;
    case Shape::kCross: return std::min(box_distance(x, y, 0.95f, 0.27f), box_distance(x, y, 0.27f, 0.95f));
    case Shape::kTriangle: {
      constexpr float kHalfSqrt3 = 0.8660254f;
      return std::max(y, kHalfSqrt3 * std::abs(x) - 0.5f * y) - 0.5f;
    }
  }
  return 1.0f;
}

/// Small, fast generator for pixel noise (xorshift64*); its quality does not matter here.
class NoiseSource {
 public:
  explicit NoiseSource(uint64_t key) : state_(key | 1) {}
  /// A value in -1..1, likelier near 0.
  float next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    const uint64_t bits = state_ * 0x2545F4914F6CDD1DULL;
    return static_cast<float>(static_cast<int>(bits >> 56) + static_cast<int>(bits >> 48 & 255) - 255) / 255.0f;
  }

 private:
  uint64_t state_;
};

uint8_t to_byte(float value) { return static_cast<uint8_t>(std::clamp(value + 0.5f, 0.0f, 255.0f)); }

void render_ground(const Scene& scene, int image_pixels, Image& out) {
  NoiseSource noise(scene.noise_key);
  const float unit = 1.0f / static_cast<float>(image_pixels);
  const float step_x = std::cos(scene.ground_angle) * unit, step_y = std::sin(scene.ground_angle) * unit;
  const float amplitude = scene.background == Background::kSpeckles ? 26.0f : 4.0f;
  uint8_t* pixel = out.rgb_YXC.data();
  for (int y = 0; y < image_pixels; ++y) {
    for (int x = 0; x < image_pixels; ++x, pixel += 3) {
      float mix = 0.0f;  // share of the second colour
      const float along = static_cast<float>(x) * step_x + static_cast<float>(y) * step_y;
      if (scene.background == Background::kGradient) mix = std::clamp(along * 0.7f + 0.3f, 0.0f, 1.0f);
      if (scene.background == Background::kStripes) {
        const float phase = along / scene.stripe_width;
        mix = phase - std::floor(phase) < 0.5f ? 0.0f : 1.0f;
      }
      const float grain = noise.next() * amplitude;
      for (size_t c = 0; c < 3; ++c)
        pixel[c] = to_byte(scene.ground_a[c] + mix * (scene.ground_b[c] - scene.ground_a[c]) + grain);
    }
  }
}

void render_shape(const Scene& scene, int image_pixels, Image& out) {
  const float side = static_cast<float>(image_pixels), radius = scene.radius * side;
  const float centre_x = scene.centre_x * side, centre_y = scene.centre_y * side;
  const float cosine = std::cos(scene.angle) / radius, sine = std::sin(scene.angle) / radius;
  const auto first = [](float value) { return std::max(0, static_cast<int>(value) - 1); };
  const auto last = [&](float value) { return std::min(image_pixels - 1, static_cast<int>(value) + 1); };
  for (int y = first(centre_y - radius); y <= last(centre_y + radius); ++y) {
    for (int x = first(centre_x - radius); x <= last(centre_x + radius); ++x) {
      const float dx = static_cast<float>(x) + 0.5f - centre_x, dy = static_cast<float>(y) + 0.5f - centre_y;
      const float distance_px = shape_distance(scene.shape, dx * cosine + dy * sine, dy * cosine - dx * sine) * radius;
      const float cover = std::clamp(0.5f - distance_px, 0.0f, 1.0f);
      if (cover <= 0.0f) continue;
      // An outline darkens the outer 6 % of the radius.
      const float outline = scene.has_outline ? std::clamp(0.5f + distance_px + 0.06f * radius, 0.0f, 1.0f) : 0.0f;
      uint8_t* pixel = out.rgb_YXC.data() +
                       (static_cast<size_t>(y) * static_cast<size_t>(image_pixels) + static_cast<size_t>(x)) * 3;
      for (size_t c = 0; c < 3; ++c) {
        const float ink = scene.colour[c] * (1.0f - 0.5f * outline);
        pixel[c] = to_byte(static_cast<float>(pixel[c]) + cover * (ink - static_cast<float>(pixel[c])));
      }
    }
  }
}

}  // namespace

void render_scene(const Scene& scene, int image_pixels, Image& out) {
  allocate_image(image_pixels, image_pixels, out);
  render_ground(scene, image_pixels, out);
  render_shape(scene, image_pixels, out);
}

}  // namespace lockstep::data
