#include "data/pictures/make_shapes.h"

#include <vector>

#include "data/pictures/image_codecs.h"
#include "data/pictures/make_shapes_scene.h"

namespace lockstep::data {
namespace {

constexpr int kJpegQuality = 90;
constexpr const char* kTemplates = "a photo of a {}.\na picture of a {}.\nan image of a {}.\na {}.\n";

core::Json scene_json(const Scene& scene) {
  return {{"class", shape_class_names()[static_cast<size_t>(scene.label)]},
          {"label", scene.label},
          {"x", scene.centre_x},
          {"y", scene.centre_y},
          {"radius", scene.radius},
          {"background", background_name(scene.background)},
          {"background_colour", ground_colour_name(scene.ground_colour)}};
}

DemoSample make_sample(const DemoSet& set, const DemoClassOrder& order, int image_pixels, Image& image, DemoSplit split,
                       int64_t index) {
  core::CounterRng rng(demo_sample_key(set, split, index));
  const Scene scene = draw_scene(static_cast<int>(order.label(split, index)), rng);
  const std::string caption = describe_scene(scene, rng);
  render_scene(scene, image_pixels, image);
  const std::vector<std::byte> jpeg = encode_jpeg(image, kJpegQuality);
  return {.label = scene.label,
          .members = {{"jpg", std::string(reinterpret_cast<const char*>(jpeg.data()), jpeg.size())},
                      {"txt", caption},
                      {"cls", fmt::to_string(scene.label)},
                      {"json", scene_json(scene).dump()}}};
}

}  // namespace

DemoSetResult make_shapes(const MakeShapesConfig& config) {
  DemoSet set{.kind = "shapes",
              .options = config.set,
              .settings = {{"image_pixels", config.image_pixels}},
              .class_names = shape_class_names(),
              .templates = kTemplates};
  check_demo_setting(set, "the image size in pixels", config.image_pixels, 16, 4096);
  set.open_maker = [&set, order = DemoClassOrder(set, set.class_names.size()),
                    pixels = static_cast<int>(config.image_pixels)] {
    return [&set, order, pixels, image = Image()](DemoSplit split, int64_t index) mutable {
      return make_sample(set, order, pixels, image, split, index);
    };
  };
  return make_demo_set(set);
}

}  // namespace lockstep::data
