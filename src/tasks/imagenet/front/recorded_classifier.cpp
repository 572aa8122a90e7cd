#include "tasks/imagenet/front/recorded_classifier.h"

#include "tasks/front/recorded_run.h"

namespace lockstep::tasks {

bool take_recorded_classifier(core::OptionSet& set, const std::string& weights) {
  const auto attempt = recorded_attempt(weights);
  if (!attempt || attempt->task != "imagenet") return false;
  take_recorded_options(set, *attempt,
                        {{"model", "arch"},
                         {"force-image-size", "train-crop-size"},
                         {"val-resize-size", "val-resize-size"},
                         {"image-interpolation", "interpolation"},
                         {"image-mean", "image-mean"},
                         {"image-std", "image-std"},
                         {"max-image-pixels", "max-image-pixels"}});
  return true;
}

}  // namespace lockstep::tasks
