#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/rng.h"
#include "data/pictures/image.h"

namespace lockstep::data {

enum class Shape { kCircle, kCross, kRing, kTriangle };
enum class Background { kPlain, kGradient, kStripes, kSpeckles };

using Rgb = std::array<float, 3>;  ///< 0..255

/// One picture of the demo set, before it is drawn. Lengths are fractions of the picture's side.
struct Scene {
  int label = 0;
  Shape shape = Shape::kCircle;
  Rgb colour{};
  float centre_x = 0.5f, centre_y = 0.5f, radius = 0.3f, angle = 0.0f;  ///< angle in radians
  bool has_outline = false;
  Background background = Background::kPlain;
  int ground_colour = 0;       ///< Index of the named background colour.
  Rgb ground_a{}, ground_b{};  ///< The two colours of gradients and stripes.
  float ground_angle = 0.0f;   ///< Direction of gradients and stripes.
  float stripe_width = 0.1f;
  uint64_t noise_key = 0;
};

/// Names of the classes in the order of their labels, "blue circle" to "yellow triangle", sorted.
const std::vector<std::string>& shape_class_names();

/// A scene of class `label`, every other property drawn from `rng`.
Scene draw_scene(int label, core::CounterRng& rng);

/// A natural caption with varied wording, true of the scene; it always names colour and shape.
std::string describe_scene(const Scene& scene, core::CounterRng& rng);

/// "plain", "gradient", "striped", "speckled"; and the colour's name.
std::string_view background_name(Background background);
std::string_view ground_colour_name(int ground_colour);

/// Draws the scene with smooth edges into image_pixels x image_pixels.
void render_scene(const Scene& scene, int image_pixels, Image& out);

}  // namespace lockstep::data
