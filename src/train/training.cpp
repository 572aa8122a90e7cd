#include "train/training.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <map>

#include "config/precision_names.h"
#include "core/error.h"

namespace lockstep::train {
namespace {

std::unique_ptr<parallel::GradSync> build_sync(const config::TrainOptions& options,
                                               const std::vector<comm::NamedTensor>& parameters,
                                               comm::Comm& data_axis) {
  if (options.grad_sync == "none" && data_axis.size() > 1)
    throw UsageError(fmt::format("train: --grad-sync none on {} ranks would train {} different models",
                                 data_axis.size(), data_axis.size()),
                     "leave --grad-sync out, or start one rank");
  const parallel::MasterOptions masters{.has_masters = config::has_masters(options.precision),
                                        .fp32_gradients = options.fp32_gradients};
  const auto bucket_bytes = static_cast<int64_t>(options.bucket_mib * 1024 * 1024);
  switch (config::grad_sync_kind(options, data_axis.size())) {
    case config::GradSyncKind::kZero1:
      return parallel::make_grad_sync_zero1(parameters, data_axis, bucket_bytes, masters);
    case config::GradSyncKind::kDdp: return parallel::make_grad_sync_ddp(parameters, data_axis, bucket_bytes, masters);
    case config::GradSyncKind::kNone: break;
  }
  return parallel::make_grad_sync_none(parameters);
}

/// Of gradients or parameters of the optimiser's segments what counts on this rank.
std::vector<at::Tensor> counted_of(const std::vector<at::Tensor>& tensors, const NormShare& norm) {
  LOCKSTEP_CHECK(norm.ranks != nullptr && norm.counted.size() == tensors.size(), "{} tensors, {} known", tensors.size(),
                 norm.counted.size());
  std::vector<at::Tensor> counted = tensors;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (at::Tensor& tensor = counted[i]; tensor.defined() && norm.counted[i] < tensor.numel())
      tensor = norm.counted[i] == 0 ? at::empty({0}, tensor.options())
                                    : tensor.detach().reshape({-1}).narrow(0, 0, norm.counted[i]);
  return counted;
}

}  // namespace

std::unique_ptr<optim::AdamW> build_optimizer(const optim::AdamWConfig& config, const parallel::Holding& holding,
                                              const std::vector<config::ParamSpec>& specs) {
  std::map<std::string, const config::ParamSpec*> by_name;
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

optim::GradSummary update_parameters(parallel::GradSync& sync, optim::AdamW& optimizer, optim::LossScaler* scaler,
                                     double lr, double grad_clip_norm, const NormShare& norm) {
  const at::Tensor loss_scale = scaler != nullptr ? scaler->scale() : at::Tensor();
  const auto gradients =
      norm.ranks != nullptr
          ? optim::summarise_gradients(counted_of(optimizer.gradients(), norm), grad_clip_norm, loss_scale, norm.ranks)
          : optim::summarise_gradients(optimizer.gradients(), grad_clip_norm, loss_scale, sync.holding().shards);
  optimizer.step(lr, gradients.grad_divisor, gradients.found_inf);
  if (scaler != nullptr) scaler->update(gradients.found_inf);
  sync.publish_params();
  return gradients;
}

at::Tensor params_norm(const optim::AdamW& optimizer, const NormShare& norm) {
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> parameters;
  for (const optim::Segment& segment : optimizer.segments()) parameters.push_back(segment.parameter);
  const at::Tensor squared = optim::squared_norm(counted_of(parameters, norm));
  norm.ranks->all_reduce(squared).wait();
  return squared.sqrt();
}

at::Tensor num_zeros_in_gradient(const optim::AdamW& optimizer, const NormShare& norm) {
  const at::Tensor count = optim::count_zeros(counted_of(optimizer.gradients(), norm));
  norm.ranks->all_reduce(count).wait();
  return count;
}

CheckpointState checkpoint_state(const Training& training) {
  CheckpointState state{.tensors = training.task->network().named_parameters(),
                        .optimizer = training.optimizer.get(),
                        .scaler = training.scaler.get(),
                        .shards = training.sync->holding().shards,
                        .holds_part = training.holds_part,
                        .places = training.places,
                        .all_names = training.all_names};
  for (const auto& buffer : training.task->network().named_buffers()) state.tensors.push_back(buffer);
  return state;
}

Training build_training(const config::TrainOptions& options, std::unique_ptr<Precision> precision,
                        std::unique_ptr<models::Task> task, const std::vector<config::ParamSpec>& specs,
                        comm::Comm& data_axis, int64_t num_micro, const TrainingHooks& hooks) {
  Training training;
  training.precision = std::move(precision);
  training.task = std::move(task);
  training.faulty_task = with_fault(*training.task, hooks.fault, data_axis.rank());
  const auto parameters = training.task->network().named_parameters();
  training.sync = build_sync(options, parameters, data_axis);
  wait_where_used(training.task->network(), *training.sync);
  training.optimizer = build_optimizer(
      {.beta1 = *options.beta1, .beta2 = *options.beta2, .epsilon = *options.eps, .weight_decay = options.wd},
      training.sync->holding(), specs);
  if (training.precision->needs_loss_scaler())
    training.scaler = std::make_unique<optim::LossScaler>(parameters.at(0).tensor->device());
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
