#include "tasks/imagenet/front/recorded_classifier.h"

#include "tasks/front/recorded_run.h"

namespace lockstep::tasks {

bool take_recorded_classifier(core::OptionSet& set, const std::string& weights) {
  const auto attempt = recorded_attempt(weights);
  if (!attempt || attempt->task != "imagenet") return false;
  const auto val_pixels = attempt->options.find("val_crop_size");
  const bool has_own_size = val_pixels != attempt->options.end() && !val_pixels->is_null();
  take_recorded_options(set, *attempt,
                        {{"model", "arch"},
                         {"force-image-size", has_own_size ? "val-crop-size" : "train-crop-size"},
                         {"val-resize-size", "val-resize-size"},
                         {"image-interpolation", "interpolation"},
                         {"image-mean", "image-mean"},
                         {"image-std", "image-std"},
                         {"max-image-pixels", "max-image-pixels"}});
  return true;
}

}  // namespace lockstep::tasks
