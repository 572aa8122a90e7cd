#include "tasks/imagenet/engine/imagenet_training.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>

#include "config/imagenet_models.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/log.h"
#include "models/imagenet/classifier_task.h"
#include "models/imagenet/make_classifier.h"
#include "models/weights.h"
#include "nn/init.h"
#include "optim/epoch_schedule.h"
#include "optim/make_optimizer.h"
#include "train/agree.h"
#include "train/grad_sync_choice.h"
#include "train/recorded_step.h"
#include "train/weight_file.h"

namespace lockstep::tasks {
namespace {

/// Puts the network's own last layer in the place of one for another number of classes, which `weights` holds. Returns
/// what to say of it; "": the layer fits.
std::string keep_own_head(models::Classifier& network, models::WeightFile& weights) {
  int64_t num_before = 0, num_now = 0;
  for (const auto& [name, own] : network.named_parameters()) {
    const auto loaded = std::find_if(weights.tensors.begin(), weights.tensors.end(),
                                     [&name = name](const auto& tensor) { return tensor.first == name; });
    if (!config::is_classifier_head(name) || loaded == weights.tensors.end() || loaded->second.dim() != own->dim())
      continue;
    if (loaded->second.size(0) == own->size(0) || loaded->second.sizes().slice(1) != own->sizes().slice(1)) continue;
    num_before = loaded->second.size(0), num_now = own->size(0);
    loaded->second = own->detach().to(at::kCPU);
  }
  if (num_now == 0) return "";
  return fmt::format("the last layer of '{}' tells {} apart and is left out: that of {} begins as drawn",
                     weights.path.string(), core::counted(num_before, "class", "classes"),
                     core::counted(num_now, "class", "classes"));
}

void load_pretrained_classifier(models::Classifier& network, const ImagenetOptions& options, comm::Comm& data_axis,
                                const std::function<void()>& wait_for_reader) {
  const std::string& path = options.pretrained;
  const auto load = [&] {
    if (!std::filesystem::exists(path))
      throw UsageError(fmt::format("train: --pretrained '{}' does not exist", path),
                       "nothing is downloaded: fetch the weights and give the path of the .pth or .safetensors file");
    checkpoint::CheckpointManifest ignored;
    models::WeightFile weights = models::read_weights(train::weight_file(path, ignored));
    if (!options.is_evaluate)
      if (const std::string left_out = keep_own_head(network, weights); !left_out.empty())
        core::log_warning("{}", left_out);
    models::load_weights(network, weights);
    return std::string();
  };
  train::decide_on_rank_zero(data_axis, load, wait_for_reader);
  models::broadcast_weights(network, data_axis);
}

std::unique_ptr<models::Classifier> build_classifier(const ImagenetOptions& options, comm::Comm& data_axis,
                                                     at::Device device, const train::TrainingHooks& hooks) {
  auto network =
      models::make_classifier(classifier_of(options), {.tensors = at::TensorOptions(device),
                                                       .batch_norm_ranks = options.sync_bn ? &data_axis : nullptr,
                                                       .freezes_statistics = options.freeze_bn});
  nn::initialize(*network, classifier_params_of(options), static_cast<uint64_t>(options.seed));
  if (!options.pretrained.empty() && !hooks.is_restored)
    load_pretrained_classifier(*network, options, data_axis, hooks.waits.for_rank_zero);
  return network;
}

}  // namespace

ImagenetTraining build_imagenet_training(const ImagenetOptions& options, comm::Comm& data_axis, at::Device device,
                                         const train::TrainingHooks& hooks) {
  ImagenetTraining training;
  training.precision = std::make_unique<train::Precision>(options.precision, device.type());
  auto network = build_classifier(options, data_axis, device, hooks);
  training.classifier = network.get();
  training.task = std::make_unique<models::ClassifierTask>(
      std::move(network), data_axis,
      models::ClassifierLossOptions{.label_smoothing = options.label_smoothing,
                                    .mix = {.mixup_alpha = options.mixup_alpha, .cutmix_alpha = options.cutmix_alpha},
                                    .channels_last = options.channels_last});
  training.faulty_task = train::with_fault(*training.task, hooks.fault, data_axis.rank());
  training.data_axis = &data_axis;
  const auto parameters = training.task->network().named_parameters();
  const auto bucket_bytes = static_cast<int64_t>(options.bucket_mib * 1024 * 1024);
  training.sync =
      train::make_grad_sync({.flag = options.grad_sync, .bucket_bytes = bucket_bytes}, parameters, data_axis);
  train::prepare_parameter_reads(training);
  training.optimizer =
      optim::make_optimizer({.name = options.opt,
                             .beta1 = options.beta1,
                             .beta2 = options.beta2,
                             .epsilon = options.eps,
                             .weight_decay = options.wd,
                             .momentum = options.momentum,
                             .nesterov = options.nesterov,
                             .trust_coefficient = options.trust_coefficient},
                            train::optimizer_segments(training.sync->partition(), classifier_params_of(options)));
  if (training.precision->needs_loss_scaler()) training.scaler = std::make_unique<optim::LossScaler>(device);
  training.runner =
      train::make_recorded_step(train::step_runner_parts(training, data_axis.rank(), hooks), train::make_plain_step);
  return training;
}

void keep_averages(ImagenetTraining& training, const ImagenetOptions& options, int64_t global_batch,
                   int64_t steps_per_epoch) {
  const optim::AverageConfig config{.decay = average_decay_of(options, global_batch),
                                    .steps_per_update = options.average_steps,
                                    .steps_per_epoch = std::max<int64_t>(1, steps_per_epoch),
                                    .num_copied_steps = options.warmup_epochs * steps_per_epoch};
  // Ranks that share the optimiser's state write each their part: running statistics are the first one's.
  const comm::Comm* shards = training.sync->partition().shards;
  const bool has_buffers = shards == nullptr || shards->rank() == 0;
  auto averages = std::make_unique<optim::AveragedOptimizer>(
      std::move(training.optimizer),
      has_buffers ? training.task->network().named_buffers() : std::vector<comm::NamedTensor>(), config);
  training.averages = averages.get();
  training.optimizer = std::move(averages);
}

void ImagenetTraining::swap_averages() {
  averages->swap_averages();
  sync->publish_params();
  sync->wait_params();
  for (const auto& [name, tensor] : task->network().named_buffers()) data_axis->broadcast(tensor->detach(), 0).wait();
}

train::LearningRate imagenet_learning_rate(const ImagenetOptions& options, int64_t global_batch,
                                           int64_t steps_per_epoch) {
  const optim::EpochSchedule schedule{.kind = optim::parse_epoch_schedule(options.lr_scheduler),
                                      .base_lr = peak_lr(options, global_batch),
                                      .steps_per_epoch = steps_per_epoch,
                                      .num_epochs = options.epochs,
                                      .warmup_epochs = options.warmup_epochs,
                                      .warmup_start = options.warmup_decay,
                                      .step_epochs = options.lr_step_size,
                                      .milestones = options.lr_milestones,
                                      .gamma = options.lr_gamma,
                                      .power = options.lr_power,
                                      .end_lr = options.lr_min};
  return [schedule](int64_t step, int64_t) { return schedule.lr(step); };
}

}  // namespace lockstep::tasks
