#include "tasks/imagenet/engine/imagenet_evaluation.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "models/imagenet/classifier_task.h"

namespace lockstep::tasks {

train::Metrics evaluate_classifier(const ClassifierContext& context, data::Loader& loader) {
  const c10::NoGradGuard no_grad;
  const bool was_training = context.network.is_training();
  context.network.set_training(false);
  // Hits among the first, among the first five, sum of the losses, pictures, pictures left out.
  const at::Tensor sums_5 = at::zeros({5}, at::TensorOptions(at::kDouble).device(context.mover.device()));
  int64_t num_done = 0;
  for (data::HostBatch host = loader.next(); host.num_samples > 0; host = loader.next()) {
    models::Batch batch = context.mover.to_device(host);
    const int64_t num_samples = host.num_samples;
    const bool has_labels = !host.label_B.empty();
    loader.recycle(std::move(host));
    if (!has_labels)
      throw DataError("evaluation: the validation data have no labels",
                      "give one folder per class, or shards whose samples have a .cls member");
    num_done += num_samples;
    const auto autocast = context.precision.autocast();
    const at::Tensor score_BK = models::class_scores(context.network, batch.image_BCYX, context.channels_last);
    sums_5.narrow(0, 0, 2).add_(models::count_hits(score_BK, batch.label_B));
    sums_5.select(0, 2).add_(at::cross_entropy_loss(score_BK, batch.label_B, {}, at::Reduction::Sum));
    sums_5.select(0, 3).add_(static_cast<double>(num_samples));
    if (context.on_progress) context.on_progress(num_done);
  }
  context.network.set_training(was_training);
  sums_5.select(0, 4).add_(static_cast<double>(loader.num_bad_samples()));
  context.data_axis.all_reduce(sums_5).wait();
  const at::Tensor sums = sums_5.to(at::kCPU);  // sync: evaluation
  const double* sum = sums.const_data_ptr<double>();
  const double num_samples = sum[3];
  if (num_samples == 0)
    throw DataError(sum[4] > 0 ? fmt::format("evaluation: none of the {} validation pictures could be read", sum[4])
                               : std::string("evaluation: the validation data hold no picture"),
                    "`lockstep data inspect` shows what they hold; check --val-data and --image-key");
  return {{"top1_pct", 100 * sum[0] / num_samples},
          {"top5_pct", 100 * sum[1] / num_samples},
          {"loss", sum[2] / num_samples},
          {"num_samples", num_samples},
          {"num_failed", sum[4]}};
}

}  // namespace lockstep::tasks
