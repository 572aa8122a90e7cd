#include "train/clip_training.h"

#include <map>

#include "core/error.h"
#include "train/clip_build.h"

namespace lockstep::train {
namespace {

std::unique_ptr<models::ContrastiveTask> build_task(const spec::TrainOptions& options, const ClipTraining& training, comm::Comm& data_axis,
                                                    at::Device device) {
  auto model = build_clip_model(training.shape, {.precision = training.precision.get(),
                                                 .device = device,
                                                 .pretrained = options.pretrained,
                                                 .seed = static_cast<uint64_t>(options.seed),
                                                 .grad_checkpointing = options.grad_checkpointing,
                                                 .batch_norm_ranks = options.use_bn_sync ? &data_axis : nullptr,
                                                 .broadcast_from = &data_axis});
  return std::make_unique<models::ContrastiveTask>(
      std::move(model), data_axis,
      models::ContrastiveLossOptions{.local_loss = options.local_loss, .gather_with_grad = options.gather_with_grad});
}

std::unique_ptr<parallel::GradSync> build_sync(const spec::TrainOptions& options, const std::vector<comm::NamedTensor>& parameters,
                                               comm::Comm& data_axis) {
  const bool is_ddp = options.grad_sync == "ddp" || (options.grad_sync == "auto" && data_axis.size() > 1);
  if (options.grad_sync == "none" && data_axis.size() > 1)
    throw UsageError(fmt::format("train: --grad-sync none on {} ranks would train {} different models", data_axis.size(), data_axis.size()),
                     "leave --grad-sync out, or start one rank");
  const auto bucket_bytes = static_cast<int64_t>(options.bucket_mib * 1024 * 1024);
  return is_ddp ? parallel::make_grad_sync_ddp(parameters, data_axis, bucket_bytes) : parallel::make_grad_sync_none(parameters);
}

std::unique_ptr<optim::AdamW> build_optimizer(const spec::TrainOptions& options, const std::vector<comm::NamedTensor>& parameters,
                                              const spec::ClipShape& shape) {
  std::map<std::string, bool> decays;
  for (const auto& spec : spec::clip_param_specs(shape)) decays[spec.name] = spec.weight_decay;
  std::vector<optim::Segment> segments;
  for (const auto& parameter : parameters)
    segments.push_back({.name = parameter.name, .parameter = *parameter.tensor, .decays = decays.at(parameter.name), .gradient = {}});
  return std::make_unique<optim::AdamW>(
      std::move(segments),
      optim::AdamWConfig{.beta1 = *options.beta1, .beta2 = *options.beta2, .epsilon = *options.eps, .weight_decay = options.wd});
}

}  // namespace

spec::ClipShape clip_shape_of(const spec::TrainOptions& options) {
  spec::ClipOverrides overrides{.context_length = options.force_context_length,
                                .quick_gelu = options.force_quick_gelu,
                                .patch_dropout = options.force_patch_dropout};
  if (!options.force_image_size.empty()) overrides.image_size = options.force_image_size.front();
  return spec::resolve_clip_shape(options.model, overrides);
}

optim::GradSummary ClipTraining::update(double lr, double grad_clip_norm) {
  const auto gradients = optim::summarise_gradients(optimizer->gradients(), grad_clip_norm, scaler ? scaler->scale() : at::Tensor());
  optimizer->step(lr, gradients.grad_divisor, gradients.found_inf);
  if (scaler) scaler->update(gradients.found_inf);
  sync->publish_params();
  task->after_step();
  return gradients;
}

ClipTraining build_clip_training(const spec::TrainOptions& options, comm::Comm& data_axis, at::Device device, int64_t num_micro,
                                 PhaseClock* phases) {
  ClipTraining training;
  training.shape = clip_shape_of(options);
  training.precision = std::make_unique<Precision>(options.precision, device.type());
  training.task = build_task(options, training, data_axis, device);
  const auto parameters = training.task->network().named_parameters();
  training.sync = build_sync(options, parameters, data_axis);
  training.optimizer = build_optimizer(options, parameters, training.shape);
  if (training.precision->needs_loss_scaler()) training.scaler = std::make_unique<optim::LossScaler>(device);
  const StepRunnerParts parts{.task = *training.task, .sync = *training.sync, .precision = *training.precision,
                              .scaler = training.scaler.get(), .data_rank = data_axis.rank(), .phases = phases};
  training.runner = num_micro > 1 ? make_contrastive_cache_step(parts) : make_plain_step(parts);
  return training;
}

}  // namespace lockstep::train
