#include "train/training.h"

#include <ATen/ops/zeros.h>

#include <map>

#include "core/error.h"

namespace lockstep::train {
namespace {

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
                                              const std::vector<spec::ParamSpec>& specs) {
  std::map<std::string, bool> decays;
  for (const auto& spec : specs) decays[spec.name] = spec.weight_decay;
  std::vector<optim::Segment> segments;
  for (const auto& parameter : parameters)
    segments.push_back({.name = parameter.name, .parameter = *parameter.tensor, .decays = decays.at(parameter.name), .gradient = {}});
  return std::make_unique<optim::AdamW>(
      std::move(segments),
      optim::AdamWConfig{.beta1 = *options.beta1, .beta2 = *options.beta2, .epsilon = *options.eps, .weight_decay = options.wd});
}

}  // namespace

optim::GradSummary summarise_model_gradients(const std::vector<at::Tensor>& gradients, double grad_clip_norm, const at::Tensor& loss_scale,
                                             const NormShare& norm) {
  if (norm.ranks == nullptr) return optim::summarise_gradients(gradients, grad_clip_norm, loss_scale);
  LOCKSTEP_CHECK(norm.counts.size() == gradients.size(), "{} gradients, {} known", gradients.size(), norm.counts.size());
  std::vector<at::Tensor> counted;
  for (size_t i = 0; i < gradients.size(); ++i)
    if (norm.counts[i]) counted.push_back(gradients[i]);
  if (counted.empty() && !gradients.empty()) counted.push_back(at::zeros({1}, gradients.front().options()));  // so that the sum lies on the device
  return optim::summarise_gradients(counted, grad_clip_norm, loss_scale, norm.ranks);
}

optim::GradSummary Training::update(double lr, double grad_clip_norm) {
  const auto gradients = summarise_model_gradients(optimizer->gradients(), grad_clip_norm, scaler ? scaler->scale() : at::Tensor(), norm);
  optimizer->step(lr, gradients.grad_divisor, gradients.found_inf);
  if (scaler) scaler->update(gradients.found_inf);
  sync->publish_params();
  task->after_step();
  return gradients;
}

Training build_training(const spec::TrainOptions& options, std::unique_ptr<Precision> precision, std::unique_ptr<models::Task> task,
                        const std::vector<spec::ParamSpec>& specs, comm::Comm& data_axis, int64_t num_micro, const TrainingHooks& hooks) {
  Training training;
  training.precision = std::move(precision);
  training.task = std::move(task);
  training.faulty_task = with_fault(*training.task, hooks.fault, data_axis.rank());
  const auto parameters = training.task->network().named_parameters();
  training.sync = build_sync(options, parameters, data_axis);
  training.optimizer = build_optimizer(options, parameters, specs);
  if (training.precision->needs_loss_scaler()) training.scaler = std::make_unique<optim::LossScaler>(parameters.at(0).tensor->device());
  const StepRunnerParts parts{.task = training.faulty_task ? *training.faulty_task : *training.task,
                              .sync = *training.sync,
                              .precision = *training.precision,
                              .scaler = training.scaler.get(),
                              .data_rank = data_axis.rank(),
                              .phases = hooks.phases};
  training.runner = num_micro > 1 ? make_contrastive_cache_step(parts) : make_plain_step(parts);
  return training;
}

}  // namespace lockstep::train
