#include "infer/model_of_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "config/imagenet_models.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/log.h"
#include "core/strings.h"
#include "models/weights.h"

namespace lockstep::infer {
namespace {

bool has_image_tower(const std::vector<config::NamedShape>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const config::NamedShape& tensor) { return core::starts_with(tensor.name, "visual."); });
}

}  // namespace

int64_t num_classes_of(const models::WeightFile& weights) {
  for (const auto& [name, tensor] : weights.tensors)
    if ((name == "fc.weight" || name == "heads.head.weight") && tensor.dim() == 2) return tensor.size(0);
  throw DataError(fmt::format("infer: '{}' has neither fc.weight nor heads.head.weight", weights.path.string()),
                  "expected the weights of a ResNet or ViT under torchvision's names");
}

void take_model_of_weights(config::InferOptions& options, core::OptionSet& set) {
  std::vector<config::NamedShape> tensors;
  for (const auto& [name, tensor] : models::read_weights(options.pretrained).tensors)
    tensors.push_back({name, tensor.sizes().vec()});
  const auto shape = config::classifier_of_tensors(tensors);
  if (!shape && !has_image_tower(tensors))
    throw UsageError(fmt::format("options: the model of '{}' is not known: its {} are neither those of a CLIP nor "
                                 "of {}",
                                 options.pretrained, core::counted(tensors.size(), "tensor"),
                                 core::join_or(config::classifier_names())),
                     "give it with --model NAME or --model FILE.json; classifiers must have torchvision's names and "
                     "shapes");
  if (shape) {
    options.model = shape->name;
    if (!shape->is_resnet() && options.force_image_size.empty()) options.force_image_size = {shape->image_pixels};
    set.mark_derived("model", "the tensors of --pretrained");
    core::log_info("infer: the tensors of '{}' are those of {} with {}; pictures are prepared with {} pixels{}",
                   options.pretrained, shape->name, core::counted(shape->num_classes, "class", "classes"),
                   options.force_image_size.empty() ? shape->image_pixels : options.force_image_size.front(),
                   shape->is_resnet() && options.force_image_size.empty() ? " (--force-image-size gives others)" : "");
  } else {
    set.mark_derived("model", "the default, as --pretrained is no classifier's");
    core::log_warning("no --model given: {} is assumed for the weights '{}'", options.model, options.pretrained);
  }
  config::fill_infer_defaults(options, set);
  config::check_infer_options(options, set);
}

}  // namespace lockstep::infer
