#include "tasks/imagenet/front/recorded_classifier.h"

#include <string>
#include <utility>
#include <vector>

#include "tasks/front/recorded_run.h"
#include "tasks/imagenet/front/classifier_config.h"

namespace lockstep::tasks {

bool take_recorded_classifier(core::OptionSet& set, const std::string& weights) {
  const auto attempt = classifier_attempt(weights);
  if (!attempt) return false;
  const auto val_pixels = attempt->options.find("val_crop_size");
  const bool has_own_size = val_pixels != attempt->options.end() && !val_pixels->is_null();
  std::vector<std::pair<std::string, std::string>> flags = {
      {"model", "arch"},
      {"force-image-size", has_own_size ? "val-crop-size" : "train-crop-size"},
      {"image-interpolation", "interpolation"},
      {"image-mean", "image-mean"},
      {"image-std", "image-std"},
      {"max-image-pixels", "max-image-pixels"}};
  if (!set.is_given("force-image-size"))  // else it belongs to another crop
    flags.emplace_back("val-resize-size", "val-resize-size");
  take_recorded_options(set, *attempt, flags);
  return true;
}

}  // namespace lockstep::tasks
