#include "tasks/contrastive/engine/contrastive_training.h"

#include "config/frozen_parameters.h"
#include "config/option_checks.h"
#include "config/precision_names.h"
#include "core/error.h"
#include "core/strings.h"
#include "models/contrastive_task.h"
#include "optim/make_optimizer.h"
#include "optim/split_optimizer.h"
#include "tasks/contrastive/engine/contrastive_cache_step.h"
#include "tasks/contrastive/engine/towers_build.h"
#include "train/grad_sync_choice.h"
#include "train/recorded_step.h"

namespace lockstep::tasks {

namespace {

std::unique_ptr<parallel::GradSync> build_sync(const ContrastiveOptions& options,
                                               const std::vector<comm::NamedTensor>& parameters,
                                               comm::Comm& data_axis) {
  return train::make_grad_sync(
      {.flag = options.grad_sync,
       .bucket_bytes = static_cast<int64_t>(options.bucket_mib * 1024 * 1024),
       .masters = {.has_masters = config::has_masters(options.precision), .fp32_gradients = options.fp32_gradients}},
      parameters, data_axis);
}

void lock_towers(models::TwoTowers& towers, const std::set<std::string>& frozen) {
  for (const auto& parameter : towers.named_parameters())
    if (frozen.contains(parameter.name)) parameter.tensor->set_requires_grad(false);
}

/// Half of the memory for each tower where both have a cache.
void add_feature_caches(const ContrastiveOptions& options, const config::ContrastiveShape& shape, at::Device device,
                        models::ContrastiveTaskOptions& task) {
  if (options.cache_locked_features.empty()) return;
  const auto refusals = feature_cache_refusals(options, *shape.clip());
  const int64_t bytes = config::parse_bytes(options.cache_locked_features, "--cache-locked-features") /
                        (refusals.image.empty() && refusals.text.empty() ? 2 : 1);
  if (refusals.image.empty()) task.image_cache = std::make_unique<models::FeatureCache>(bytes, device);
  if (refusals.text.empty()) task.text_cache = std::make_unique<models::FeatureCache>(bytes, device);
}

std::unique_ptr<models::TwoTowers> build_teacher(const ContrastiveOptions& options, const train::Precision& precision,
                                                 comm::Comm& data_axis, at::Device device,
                                                 const std::function<void()>& wait_for_reader) {
  auto teacher = build_towers(teacher_shape_of(options), {.precision = &precision,
                                                          .device = device,
                                                          .pretrained = options.distill_pretrained,
                                                          .pretrained_flag = "--distill-pretrained",
                                                          .broadcast_from = &data_axis,
                                                          .wait_for_reader = wait_for_reader});
  for (const auto& parameter : teacher->named_parameters()) parameter.tensor->set_requires_grad(false);
  return teacher;
}

optim::OptimizerConfig optimizer_config(const ContrastiveOptions& options, const UpdateNumbers& numbers) {
  return {.name = options.opt,
          .beta1 = numbers.beta1,
          .beta2 = numbers.beta2,
          .epsilon = numbers.eps,
          .weight_decay = numbers.wd};
}

/// `of_file`: what a file of OpenCLIP has in place of the flags.
std::unique_ptr<optim::Optimizer> build_optimizer(const ContrastiveOptions& options,
                                                  const std::optional<optim::AdamWConfig>& of_file,
                                                  std::vector<optim::Segment> segments) {
  UpdateNumbers numbers = update_numbers(options, /*is_pretrained=*/false);
  if (!options.split_opt) {
    if (of_file)
      numbers = {.lr = numbers.lr,
                 .beta1 = of_file->beta1,
                 .beta2 = of_file->beta2,
                 .eps = of_file->epsilon,
                 .wd = of_file->weight_decay};
    return optim::make_optimizer(optimizer_config(options, numbers), std::move(segments));
  }
  if (of_file)
    throw UsageError("train: --split-opt has two sets of numbers, a run that began in OpenCLIP goes on with one",
                     "drop --split-opt");
  const UpdateNumbers pretrained = update_numbers(options, /*is_pretrained=*/true);
  return std::make_unique<optim::SplitOptimizer>(
      std::move(segments), optimizer_config(options, numbers),
      optim::PretrainedUpdate{.config = optimizer_config(options, pretrained), .lr_scale = pretrained.lr / numbers.lr});
}

}  // namespace

std::vector<std::string> adamw_warnings(const ContrastiveOptions& options, const optim::AdamWConfig& of_file) {
  std::vector<std::string> out;
  for (const auto& [flag, file_value, flag_value] : {std::tuple{"beta1", of_file.beta1, *options.beta1},
                                                     {"beta2", of_file.beta2, *options.beta2},
                                                     {"eps", of_file.epsilon, *options.eps},
                                                     {"wd", of_file.weight_decay, options.wd}})
    if (file_value != flag_value)
      out.push_back(
          fmt::format("train: --{} {} is not used: the run goes on with {} of the OpenCLIP file, as in OpenCLIP", flag,
                      flag_value, file_value));
  return out;
}

ContrastiveTraining build_contrastive_training(const ContrastiveOptions& options, const config::ContrastiveShape& shape,
                                               comm::Comm& data_axis, at::Device device, int64_t num_micro_batches,
                                               const train::TrainingHooks& hooks) {
  ContrastiveTraining training;
  training.precision = std::make_unique<train::Precision>(options.precision, device.type());
  auto towers = build_towers(
      shape, {.precision = training.precision.get(),
              .device = device,
              .pretrained = hooks.is_restored ? "" : options.pretrained,
              .tower_weights = hooks.is_restored ? config::TowerWeightNames() : tower_weight_names(options),
              .seed = static_cast<uint64_t>(options.seed),
              .grad_checkpointing = options.grad_checkpointing,
              .freezes_batch_norm = options.lock_image_freeze_bn_stats,
              .batch_norm_ranks = options.use_bn_sync ? &data_axis : nullptr,
              .broadcast_from = &data_axis,
              .wait_for_reader = hooks.waits.for_rank_zero});
  training.towers = towers.get();
  lock_towers(*towers, config::frozen_parameters(shape, options.tower_locks()));
  models::ContrastiveTaskOptions task{
      .loss = {.local_loss = options.local_loss, .gather_with_grad = options.gather_with_grad},
      .has_sigmoid_loss = options.siglip,
      .contrastive_weight = options.coca_contrastive_loss_weight,
      .caption_weight = options.coca_caption_loss_weight,
      .teacher = options.has_teacher()
                     ? build_teacher(options, *training.precision, data_axis, device, hooks.waits.for_rank_zero)
                     : nullptr,
      .teacher_packs_texts = options.has_teacher() && teacher_shape_of(options).packs_texts()};
  add_feature_caches(options, shape, device, task);
  training.task = std::make_unique<models::ContrastiveTask>(std::move(towers), data_axis, std::move(task));
  training.faulty_task = train::with_fault(*training.task, hooks.fault, data_axis.rank());
  training.data_axis = &data_axis;
  const auto parameters = training.task->network().named_parameters();
  training.sync = build_sync(options, parameters, data_axis);
  train::prepare_parameter_reads(training);
  training.optimizer = build_optimizer(
      options, hooks.adamw, train::optimizer_segments(training.sync->partition(), updated_specs(options, shape)));
  if (training.precision->needs_loss_scaler())
    training.scaler = std::make_unique<optim::LossScaler>(parameters.at(0).tensor->device());
  training.runner =
      train::make_recorded_step(train::step_runner_parts(training, data_axis.rank(), hooks),
                                num_micro_batches > 1 ? make_contrastive_cache_step : train::make_plain_step);
  return training;
}

}  // namespace lockstep::tasks
