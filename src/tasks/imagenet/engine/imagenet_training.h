#pragma once
#include "comm/comm.h"
#include "models/imagenet/classifier.h"
#include "optim/averaged.h"
#include "tasks/imagenet/front/imagenet_options.h"
#include "train/training.h"

namespace lockstep::tasks {

/// Training of a classifier, and what evaluation reads of it.
struct ImagenetTraining : train::Training {
  models::Classifier* classifier = nullptr;      ///< The task's network.
  optim::AveragedOptimizer* averages = nullptr;  ///< The optimiser, where it keeps averages.

  /// Weights and running statistics of all ranks change places with their averages, those of the statistics being rank
  /// 0's. A second call brings them back. Collective.
  void swap_averages();
};

/// Network (initialised, or from --pretrained), loss, gradients, optimiser, step. Collective.
ImagenetTraining build_imagenet_training(const ImagenetOptions& options, comm::Comm& data_axis, at::Device device,
                                         const train::TrainingHooks& hooks);

/// Adds the average of --model-ema to the optimiser of a new training, before a checkpoint is read.
void keep_averages(ImagenetTraining& training, const ImagenetOptions& options, int64_t global_batch,
                   int64_t steps_per_epoch);

/// The learning rate of each step of a run with epochs of so many steps.
train::LearningRate imagenet_learning_rate(const ImagenetOptions& options, int64_t global_batch,
                                           int64_t steps_per_epoch);

}  // namespace lockstep::tasks
