#include "train/training.h"

#include <ATen/ops/zeros.h>

#include <map>

#include "core/error.h"
#include "spec/precision_names.h"

namespace lockstep::train {
namespace {

std::unique_ptr<parallel::GradSync> build_sync(const spec::TrainOptions& options, const std::vector<comm::NamedTensor>& parameters,
                                               comm::Comm& data_axis) {
  if (options.grad_sync == "none" && data_axis.size() > 1)
    throw UsageError(fmt::format("train: --grad-sync none on {} ranks would train {} different models", data_axis.size(), data_axis.size()),
                     "leave --grad-sync out, or start one rank");
  const parallel::MasterOptions masters{.has_masters = spec::has_masters(options.precision), .fp32_gradients = options.fp32_gradients};
  const auto bucket_bytes = static_cast<int64_t>(options.bucket_mib * 1024 * 1024);
  switch (spec::grad_sync_kind(options, data_axis.size())) {
    case spec::GradSyncKind::kZero1: return parallel::make_grad_sync_zero1(parameters, data_axis, bucket_bytes, masters);
    case spec::GradSyncKind::kDdp: return parallel::make_grad_sync_ddp(parameters, data_axis, bucket_bytes, masters);
    case spec::GradSyncKind::kNone: break;
  }
  return parallel::make_grad_sync_none(parameters);
}

/// Of all gradients of the model, where ranks hold different parameters.
optim::GradSummary summarise_shared(const std::vector<at::Tensor>& gradients, double grad_clip_norm, const at::Tensor& loss_scale,
                                    const NormShare& norm) {
  LOCKSTEP_CHECK(norm.counts.size() == gradients.size(), "{} gradients, {} known", gradients.size(), norm.counts.size());
  std::vector<at::Tensor> counted;
  for (size_t i = 0; i < gradients.size(); ++i)
    if (norm.counts[i]) counted.push_back(gradients[i]);
  if (counted.empty() && !gradients.empty()) counted.push_back(at::zeros({1}, gradients.front().options()));  // so that the sum lies on the device
  return optim::summarise_gradients(counted, grad_clip_norm, loss_scale, norm.ranks);
}

}  // namespace

std::unique_ptr<optim::AdamW> build_optimizer(const optim::AdamWConfig& config, const parallel::Holding& holding, const std::vector<spec::ParamSpec>& specs) {
  std::map<std::string, const spec::ParamSpec*> by_name;
  for (const auto& spec : specs) by_name[spec.name] = &spec;
  auto segments = holding.segments;
  for (auto& segment : segments) {
    segment.decays = by_name.at(segment.name)->weight_decay;
    segment.bounds = by_name.at(segment.name)->bounds;
  }
  return std::make_unique<optim::AdamW>(std::move(segments), config);
}

void wait_where_used(nn::Module& network, parallel::GradSync& sync) {
  for (nn::Module* unit : network.units())
    if (auto wait = sync.wait_where_used(unit->named_parameters())) unit->set_before_run(std::move(wait));
}

optim::GradSummary update_parameters(parallel::GradSync& sync, optim::AdamW& optimizer, optim::LossScaler* scaler, double lr, double grad_clip_norm,
                                     const NormShare& norm) {
  const at::Tensor loss_scale = scaler != nullptr ? scaler->scale() : at::Tensor();
  const auto gradients = norm.ranks != nullptr ? summarise_shared(optimizer.gradients(), grad_clip_norm, loss_scale, norm)
                                               : optim::summarise_gradients(optimizer.gradients(), grad_clip_norm, loss_scale, sync.holding().shards);
  optimizer.step(lr, gradients.grad_divisor, gradients.found_inf);
  if (scaler != nullptr) scaler->update(gradients.found_inf);
  sync.publish_params();
  return gradients;
}

CheckpointState checkpoint_state(const Training& training) {
  CheckpointState state{.tensors = training.task->network().named_parameters(), .optimizer = training.optimizer.get(), .scaler = training.scaler.get(),
                        .shards = training.sync->holding().shards, .holds_part = training.holds_part, .places = training.places, .all_names = training.all_names};
  for (const auto& buffer : training.task->network().named_buffers()) state.tensors.push_back(buffer);
  return state;
}

Training build_training(const spec::TrainOptions& options, std::unique_ptr<Precision> precision, std::unique_ptr<models::Task> task,
                        const std::vector<spec::ParamSpec>& specs, comm::Comm& data_axis, int64_t num_micro, const TrainingHooks& hooks) {
  Training training;
  training.precision = std::move(precision);
  training.task = std::move(task);
  training.faulty_task = with_fault(*training.task, hooks.fault, data_axis.rank());
  const auto parameters = training.task->network().named_parameters();
  training.sync = build_sync(options, parameters, data_axis);
  wait_where_used(training.task->network(), *training.sync);
  training.optimizer = build_optimizer({.beta1 = *options.beta1, .beta2 = *options.beta2, .epsilon = *options.eps, .weight_decay = options.wd},
                                       training.sync->holding(), specs);
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
