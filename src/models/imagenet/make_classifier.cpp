#include "models/imagenet/make_classifier.h"

#include "models/imagenet/resnet.h"
#include "models/imagenet/vision_classifier.h"

namespace lockstep::models {

std::unique_ptr<Classifier> make_classifier(const config::ClassifierShape& shape, const ClassifierOptions& options) {
  if (shape.is_resnet()) return std::make_unique<Resnet>(shape, options);
  return std::make_unique<VisionClassifier>(shape, options);
}

}  // namespace lockstep::models
