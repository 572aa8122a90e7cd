#pragma once
#include <memory>
#include <optional>
#include <utility>

#include "comm/comm.h"
#include "models/contrastive_loss.h"
#include "models/feature_cache.h"
#include "models/task.h"
#include "models/two_towers.h"

namespace lockstep::models {

/// Divides each row by its L2 norm (at least 1e-12), computed in fp32; half-precision features come out as fp32.
at::Tensor normalise_rows(const at::Tensor& features_BE);

struct ContrastiveTaskOptions {
  ContrastiveLossOptions loss = {};
  bool has_sigmoid_loss = false;            ///< --siglip: the sigmoid loss takes the softmax loss's place.
  double contrastive_weight = 1.0;          ///< Captioning models: --coca-contrastive-loss-weight.
  double caption_weight = 2.0;              ///< --coca-caption-loss-weight.
  std::unique_ptr<TwoTowers> teacher = {};  ///< --distill-model: its softmax is learnt, too. Not trained.
  bool teacher_packs_texts = false;         ///< It takes ids as they are, from the host.
  /// Of towers whose features depend on nothing but their input; batches then have keys.
  std::unique_ptr<FeatureCache> image_cache = {}, text_cache = {};
};

/// Two towers trained with the contrastive loss: CLIP and CLAP.
class ContrastiveTask final : public Task {
 public:
  /// `data_axis` must outlive the task.
  ContrastiveTask(std::unique_ptr<TwoTowers> towers, comm::Comm& data_axis, ContrastiveTaskOptions options);

  nn::Module& network() override { return *towers_; }
  TwoTowers& towers() { return *towers_; }
  Outputs forward(const Batch& batch) override;
  /// "contrastive_loss": the mean over the pairs of all ranks; with a teacher also "distill_loss", of a captioning
  /// model also "caption_loss", the mean over the tokens of all ranks; beside them "logit_scale", and with caches
  /// "cached_share", of this rank's rows since the loss before.
  LossReport loss(const Outputs& outputs) override;

 private:
  /// Times its weight: this rank's part, whose average over the ranks is the whole, and the whole.
  std::pair<at::Tensor, at::Tensor> caption_loss(const Outputs& outputs) const;
  void add_teacher(const Batch& batch, Outputs& outputs);
  at::Tensor image_features(const Batch& batch);
  at::Tensor text_features(const Batch& batch);
  std::optional<double> cached_share();

  std::unique_ptr<TwoTowers> towers_;
  comm::Comm& data_axis_;
  ContrastiveTaskOptions options_;
  int64_t num_asked_ = 0, num_found_ = 0;  // of the caches, at the loss before
};

}  // namespace lockstep::models
