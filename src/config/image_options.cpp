#include "config/image_options.h"

#include "config/pretrained_weights.h"
#include "core/error.h"

namespace lockstep::config {
using core::OptionRole;

void declare_image_options(core::OptionSet& set, const ImageFields& fields, PicturesOf models) {
  const auto default_of = [&](const std::string& clip, const char* classifier) {
    return models == PicturesOf::kClip ? clip : fmt::format("{}; of a classifier {}", clip, classifier);
  };
  set.add("image-mean", fields.mean,
          {.role = OptionRole::kConfiguration,
           .help = "Mean of the channels after scaling to [0, 1]: one value or three.",
           .unset_text = default_of("0.48145466 0.4578275 0.40821073", "0.485 0.456 0.406")});
  set.add("image-std", fields.std,
          {.role = OptionRole::kConfiguration,
           .help = "Standard deviation of the channels: one value or three.",
           .unset_text = default_of("0.26862954 0.26130258 0.27577711", "0.229 0.224 0.225"),
           .min = 0,
           .is_min_excluded = true});
  set.add("image-interpolation", fields.interpolation,
          {.role = OptionRole::kConfiguration,
           .help = "Filter of the resize, always with antialias.",
           .unset_text = default_of("bicubic", "bilinear"),
           .choices = {"bicubic", "bilinear"},
           .refused_choices = {{"random", "choose bicubic or bilinear"}}});
  set.add("image-resize-mode", fields.resize_mode,
          {.role = OptionRole::kConfiguration,
           .help = "Evaluation: shortest side to size and cut out the centre, longest side to size and pad, or squash.",
           .unset_text = "shortest",
           .choices = {"shortest", "longest", "squash"}});
  set.add("image-fill-color", fields.fill_color,
          {.role = OptionRole::kConfiguration,
           .help = "Evaluation: all three channels of what --image-resize-mode longest pads with.",
           .unset_text = "0",
           .min = 0,
           .max = 255});
  set.add(
      "resize-order", fields.resize_order,
      {.role = OptionRole::kConfiguration,
       .help =
           "Order of the two resize passes: as Pillow 13 chooses it, or horizontal first as older versions do. Pixels "
           "may differ by one "
           "level.",
       .choices = {"pillow13", "horizontal"}});
}

void declare_shape_overrides(core::OptionSet& set, const ShapeFields& fields) {
  set.add("force-image-size", fields.image_size,
          {.role = OptionRole::kConfiguration,
           .help = "Side of the square input picture.",
           .unit = "pixels",
           .unset_text = "by the model",
           .min = 1,
           .max = 16384});
  set.add("force-quick-gelu", fields.quick_gelu,
          {.role = OptionRole::kConfiguration,
           .help = "x * sigmoid(1.702 x) in place of GELU, as OpenAI's weights want it."});
}

void fill_from_weights(core::OptionSet& set, const std::string& model, std::string& pretrained,
                       const ImageFields& fields) {
  if (pretrained.empty() && is_hub_model(model)) {
    pretrained = model;
    set.mark_derived("pretrained", "--model");
  }
  if (pretrained.empty()) return;
  const PicturePreparation preparation = preparation_of_weights(pretrained, model);
  const auto fill = [&](const char* flag, auto& field, const auto& value, bool is_told) {
    if (!is_told || set.is_given(flag)) return;
    field = value;
    set.mark_derived(flag, "--pretrained " + pretrained);
  };
  fill("image-mean", *fields.mean, preparation.mean, !preparation.mean.empty());
  fill("image-std", *fields.std, preparation.std, !preparation.std.empty());
  fill("image-interpolation", *fields.interpolation, preparation.interpolation, preparation.interpolation.has_value());
  fill("image-resize-mode", *fields.resize_mode, preparation.resize_mode, preparation.resize_mode.has_value());
  fill("image-fill-color", *fields.fill_color, preparation.fill_color, preparation.fill_color.has_value());
}

void check_image_options(const std::vector<double>& mean, const std::vector<double>& std,
                         const std::vector<int64_t>& image_size) {
  for (const auto& [values, flag] : {std::pair{&mean, "--image-mean"}, std::pair{&std, "--image-std"}})
    if (values->size() == 2 || values->size() > 3)
      throw UsageError(fmt::format("options: {} has {} values, expected one or three", flag, values->size()),
                       "give one value for all channels, or red, green and blue");
  if (image_size.size() > 2 || (image_size.size() == 2 && image_size[0] != image_size[1]))
    throw UsageError(fmt::format("options: --force-image-size {} is not square", fmt::join(image_size, " ")),
                     "the towers take square pictures: give one value");
}

}  // namespace lockstep::config
