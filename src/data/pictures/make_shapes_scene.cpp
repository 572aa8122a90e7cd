#include "data/pictures/make_shapes_scene.h"

#include <algorithm>
#include <numbers>

#include "core/error.h"

namespace lockstep::data {
namespace {

struct NamedColour {
  std::string_view name;
  Rgb rgb;
};

// Sorted, and so are the shapes: the class names come out in the order in which ImageFolder numbers its folders.
constexpr std::array<NamedColour, 7> kColours{{{"blue", {35, 70, 215}},
                                               {"green", {30, 160, 55}},
                                               {"pink", {245, 115, 175}},
                                               {"purple", {135, 35, 175}},
                                               {"red", {215, 35, 35}},
                                               {"turquoise", {40, 205, 200}},
                                               {"yellow", {240, 215, 30}}}};
constexpr std::array<std::string_view, 4> kShapes{"circle", "cross", "ring", "triangle"};
// Of little saturation, so that the colour of the shape stays the only strong one.
constexpr std::array<NamedColour, 8> kGrounds{{{"white", {238, 238, 238}},
                                               {"light grey", {195, 195, 195}},
                                               {"grey", {135, 135, 135}},
                                               {"dark grey", {80, 80, 80}},
                                               {"black", {25, 25, 25}},
                                               {"beige", {222, 206, 178}},
                                               {"brown", {112, 88, 70}},
                                               {"pale blue", {190, 204, 222}}}};

Rgb jitter(const Rgb& colour, float amount, core::CounterRng& rng) {
  Rgb out;
  for (size_t c = 0; c < 3; ++c) out[c] = colour[c] + amount * static_cast<float>(rng.uniform(-1, 1));
  return out;
}

template <size_t N> std::string_view choose(const std::array<std::string_view, N>& words, core::CounterRng& rng) {
  return words[rng.below(N)];
}

std::string_view size_word(const Scene& scene) {
  if (scene.radius < 0.32f) return "small ";
  return scene.radius > 0.4f ? "large " : "";
}

/// "top left" and the like, or "centre" up to 5 % of the side away from it.
std::string place_words(const Scene& scene) {
  const std::string_view row = scene.centre_y < 0.45f ? "top" : scene.centre_y > 0.55f ? "bottom" : "";
  const std::string_view column = scene.centre_x < 0.45f ? "left" : scene.centre_x > 0.55f ? "right" : "";
  if (row.empty() && column.empty()) return "centre";
  return fmt::format("{}{}{}", row, !row.empty() && !column.empty() ? " " : "", column);
}

/// "in the centre", "at the top", "on the left".
std::string where_words(const Scene& scene) {
  const std::string place = place_words(scene);
  const std::string_view preposition = place == "top" || place == "bottom"   ? "at"
                                       : place == "left" || place == "right" ? "on"
                                                                             : "in";
  return fmt::format("{} the {}", preposition, place);
}

std::string ground_words(const Scene& scene) {
  const std::string_view kind = scene.background == Background::kPlain ? "" : background_name(scene.background);
  return fmt::format("{}{}{}", kind, kind.empty() ? "" : " ", ground_colour_name(scene.ground_colour));
}

}  // namespace

const std::vector<std::string>& shape_class_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const NamedColour& colour : kColours) {
      for (const std::string_view shape : kShapes) all.push_back(fmt::format("{} {}", colour.name, shape));
    }
    return all;
  }();
  return names;
}

std::string_view background_name(Background background) {
  constexpr std::array<std::string_view, 4> kNames{"plain", "gradient", "striped", "speckled"};
  return kNames[static_cast<size_t>(background)];
}

std::string_view ground_colour_name(int ground_colour) { return kGrounds.at(static_cast<size_t>(ground_colour)).name; }

Scene draw_scene(int label, core::CounterRng& rng) {
  LOCKSTEP_CHECK(label >= 0 && static_cast<size_t>(label) < shape_class_names().size(), "label={}", label);
  Scene scene;
  scene.label = label;
  scene.shape = static_cast<Shape>(static_cast<size_t>(label) % kShapes.size());
  scene.colour = jitter(kColours[static_cast<size_t>(label) / kShapes.size()].rgb, 16, rng);
  scene.radius = static_cast<float>(rng.uniform(0.28, 0.45));
  // Near enough to the middle for a small network to learn shapes within minutes, and always wholly inside.
  const double reach = std::min(0.14, 0.5 - scene.radius);
  scene.centre_x = static_cast<float>(0.5 + rng.uniform(-reach, reach));
  scene.centre_y = static_cast<float>(0.5 + rng.uniform(-reach, reach));
  scene.angle = static_cast<float>(rng.uniform(-0.25, 0.25));
  scene.has_outline = rng.uniform() < 0.25;
  scene.background = static_cast<Background>(rng.below(4));
  scene.ground_colour = static_cast<int>(rng.below(kGrounds.size()));
  const Rgb& ground = kGrounds[static_cast<size_t>(scene.ground_colour)].rgb;
  scene.ground_a = jitter(ground, 8, rng);
  // The second colour is a lighter or darker tone of the first, so that the name holds for both.
  const float tone = (ground[1] > 128 ? -1.0f : 1.0f) * static_cast<float>(rng.uniform(15, 32));
  for (size_t c = 0; c < 3; ++c) scene.ground_b[c] = scene.ground_a[c] + tone;
  scene.ground_angle = static_cast<float>(rng.uniform(0, std::numbers::pi));
  scene.stripe_width = static_cast<float>(rng.uniform(0.06, 0.16));
  scene.noise_key = rng.next_u64();
  return scene;
}

std::string describe_scene(const Scene& scene, core::CounterRng& rng) {
  const std::string& name = shape_class_names()[static_cast<size_t>(scene.label)];
  const std::string_view size = size_word(scene);
  const std::string where = where_words(scene), ground = ground_words(scene);
  constexpr std::array<std::string_view, 5> kLead{"a photo of a", "a picture of a", "an image of a", "a drawing of a",
                                                  "a"};
  const std::string lead(choose(kLead, rng));
  switch (rng.below(10)) {
    case 0:
    case 1:
    case 2: return fmt::format("{} {}", lead, name);
    case 3:
    case 4: return fmt::format("{} {}.", lead, name);
    case 5: return fmt::format("{} {}{} on a {} background", lead, size, name, ground);
    case 6: return fmt::format("{} {}{} {}", lead, size, name, where);
    case 7: return fmt::format("{}{}, {}, {} background", size, name, place_words(scene), ground);
    case 8: return fmt::format("there is a {}{} {} of the picture.", size, name, where);
    default: return fmt::format("{} {}{} {}, on a {} background.", lead, size, name, where, ground);
  }
}

}  // namespace lockstep::data
