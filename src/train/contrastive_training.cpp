#include "train/contrastive_training.h"

#include "models/contrastive_task.h"
#include "train/towers_build.h"

namespace lockstep::train {

Training build_contrastive_training(const config::TrainOptions& options, const config::ContrastiveShape& shape,
                                    comm::Comm& data_axis, at::Device device, int64_t num_micro,
                                    const TrainingHooks& hooks) {
  auto precision = std::make_unique<Precision>(options.precision, device.type());
  auto towers = build_towers(shape, {.precision = precision.get(),
                                     .device = device,
                                     .pretrained = options.pretrained,
                                     .seed = static_cast<uint64_t>(options.seed),
                                     .grad_checkpointing = options.grad_checkpointing,
                                     .batch_norm_ranks = options.use_bn_sync ? &data_axis : nullptr,
                                     .broadcast_from = &data_axis});
  auto task = std::make_unique<models::ContrastiveTask>(
      std::move(towers), data_axis,
      models::ContrastiveLossOptions{.local_loss = options.local_loss, .gather_with_grad = options.gather_with_grad});
  return build_training(options, std::move(precision), std::move(task), shape.param_specs(), data_axis, num_micro,
                        hooks);
}

}  // namespace lockstep::train
