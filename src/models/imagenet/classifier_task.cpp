#include "models/imagenet/classifier_task.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

namespace lockstep::models {
namespace {

constexpr int64_t kIgnoreIndex = -100;  // torch's default

at::Tensor summed_cross_entropy(const at::Tensor& score_BK, const at::Tensor& label_B, double label_smoothing) {
  return at::cross_entropy_loss(score_BK, label_B, {}, at::Reduction::Sum, kIgnoreIndex, label_smoothing);
}

}  // namespace

at::Tensor class_scores(Classifier& network, const at::Tensor& image_BCYX, bool channels_last) {
  const auto format = channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  return network.forward(image_BCYX.contiguous(format)).to(at::kFloat);
}

at::Tensor count_hits(const at::Tensor& score_BK, const at::Tensor& label_B) {
  const c10::NoGradGuard no_grad;
  const at::Tensor own_B1 = score_BK.gather(1, label_B.unsqueeze(1));
  // Of equal scores, which 16-bit numbers often are, the first class is the highest: topk's order is the device's own.
  const at::Tensor index_K = at::arange(score_BK.size(1), label_B.options());
  const at::Tensor is_ahead_BK = score_BK.eq(own_B1).logical_and_(index_K.lt(label_B.unsqueeze(1)));
  const at::Tensor rank_B = score_BK.gt(own_B1).logical_or_(is_ahead_BK).sum(1);
  const at::Tensor is_number_B = score_BK.isfinite().all(1);
  return at::stack({rank_B.lt(1).logical_and_(is_number_B).sum(), rank_B.lt(5).logical_and_(is_number_B).sum()})
      .to(at::kFloat);
}

ClassifierTask::ClassifierTask(std::unique_ptr<Classifier> network, comm::Comm& data_axis,
                               const ClassifierLossOptions& options)
    : network_(std::move(network)), data_axis_(data_axis), options_(options) {}

Outputs ClassifierTask::forward(const Batch& batch) {
  const MixedSamples mixed = mix_samples(batch.image_BCYX, batch.label_B, options_.mix, batch.context.random_key);
  const at::Tensor score_BK = class_scores(*network_, mixed.image_BCYX, options_.channels_last);
  Outputs outputs;
  outputs.loss_sum = summed_cross_entropy(score_BK, batch.label_B, options_.label_smoothing);
  if (mixed.other_label_B.defined())
    outputs.loss_sum =
        outputs.loss_sum * mixed.own_share +
        summed_cross_entropy(score_BK, mixed.other_label_B, options_.label_smoothing) * (1 - mixed.own_share);
  outputs.weight_sum = at::full({}, static_cast<double>(batch.num_samples), outputs.loss_sum.options());
  // Of a mixed sample the class of the larger share counts, as in torchvision's recipes.
  const bool is_mostly_other = mixed.other_label_B.defined() && mixed.own_share < 0.5;
  outputs.hits_2 = count_hits(score_BK.detach(), is_mostly_other ? mixed.other_label_B : batch.label_B);
  return outputs;
}

LossReport ClassifierTask::loss(const Outputs& outputs) {
  const at::Tensor mean = outputs.loss_sum / outputs.weight_sum;
  const at::Tensor percent_2 = outputs.hits_2 * 100 / outputs.weight_sum;
  const at::Tensor reported = at::cat({mean.detach().view({1}), percent_2});
  data_axis_.all_reduce(reported, comm::ReduceOp::kAverage).wait();
  return {.loss = mean,
          .parts = {{"cross_entropy", reported.select(0, 0)}},
          .scalars = {{"top1_pct", reported.select(0, 1)}, {"top5_pct", reported.select(0, 2)}}};
}

}  // namespace lockstep::models
