#pragma once
#include <functional>

#include "comm/comm.h"
#include "data/loader.h"
#include "models/imagenet/classifier.h"
#include "train/batch_mover.h"
#include "train/metrics.h"
#include "train/precision.h"

namespace lockstep::tasks {

/// What an evaluation of a classifier works with. Plain references: the owner outlives it.
struct ClassifierContext {
  models::Classifier& network;
  comm::Comm& data_axis;
  const train::BatchMover& mover;
  const train::Precision& precision;
  bool channels_last = true;
  std::function<void(int64_t num_done)> on_progress =
      {};  ///< Where set: called after each batch with the pictures of this rank so far.
};

/// top1_pct, top5_pct, loss (cross entropy) and num_samples of the rest of `loader` on all ranks, each picture counted
/// once; evaluation mode, without gradient. Pictures that the loader left out are num_failed and count nowhere else.
/// DataError where there is none. Equal on every rank. Collective.
train::Metrics evaluate_classifier(const ClassifierContext& context, data::Loader& loader);

}  // namespace lockstep::tasks
