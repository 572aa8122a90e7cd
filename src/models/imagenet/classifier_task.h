#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>

#include "comm/comm.h"
#include "models/imagenet/classifier.h"
#include "models/imagenet/mix_samples.h"
#include "models/task.h"

namespace lockstep::models {

struct ClassifierLossOptions {
  double label_smoothing = 0;  ///< Share of the target that all classes have alike (Szegedy et al. 2016).
  MixOptions mix = {};
  bool channels_last = true;  ///< Memory format of pictures and feature maps.
};

/// A classifier with cross entropy. Its outputs: loss_sum and weight_sum over the micro-batch, hits_2.
class ClassifierTask final : public Task {
 public:
  /// `data_axis`, over which what is reported is a mean, outlives the task.
  ClassifierTask(std::unique_ptr<Classifier> network, comm::Comm& data_axis, const ClassifierLossOptions& options);
  nn::Module& network() override { return *network_; }
  Outputs forward(const Batch& batch) override;
  LossReport loss(const Outputs& outputs) override;

 private:
  std::unique_ptr<Classifier> network_;
  comm::Comm& data_axis_;
  ClassifierLossOptions options_;
};

/// [B, K] scores, fp32, of pictures in the given memory format.
at::Tensor class_scores(Classifier& network, const at::Tensor& image_BCYX, bool channels_last);

/// Number of rows whose class has the highest score, and one of the five highest: fp32 [2]. Of equal scores the first
/// class has the higher one. A row with a score that is no number hits nothing.
at::Tensor count_hits(const at::Tensor& score_BK, const at::Tensor& label_B);

}  // namespace lockstep::models
