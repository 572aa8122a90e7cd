#pragma once
#include <memory>

#include "config/imagenet_models.h"
#include "models/imagenet/classifier.h"

namespace lockstep::models {

/// Without content yet; nn::initialize with config::classifier_params fills it.
std::unique_ptr<Classifier> make_classifier(const config::ClassifierShape& shape, const ClassifierOptions& options);

}  // namespace lockstep::models
