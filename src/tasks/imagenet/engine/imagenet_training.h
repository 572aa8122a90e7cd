#pragma once
#include "comm/comm.h"
#include "models/imagenet/classifier.h"
#include "tasks/imagenet/front/imagenet_options.h"
#include "train/training.h"

namespace lockstep::tasks {

/// Training of a classifier, and what evaluation reads of it.
struct ImagenetTraining : train::Training {
  models::Classifier* classifier = nullptr;  ///< The task's network.
};

/// Network (initialised, or from --pretrained), loss, gradients, optimiser, step. Collective.
ImagenetTraining build_imagenet_training(const ImagenetOptions& options, comm::Comm& data_axis, at::Device device,
                                         const train::TrainingHooks& hooks);

/// The learning rate of each step of a run with epochs of so many steps.
train::LearningRate imagenet_learning_rate(const ImagenetOptions& options, int64_t global_batch,
                                           int64_t steps_per_epoch);

}  // namespace lockstep::tasks
