#include "train/training.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <map>

#include "core/error.h"

namespace lockstep::train {
namespace {

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

std::vector<optim::Segment> optimizer_segments(const parallel::Partition& partition,
                                               const std::vector<config::ParamSpec>& specs) {
  std::map<std::string, const config::ParamSpec*> by_name;
  for (const auto& spec : specs) by_name[spec.name] = &spec;
  auto segments = partition.segments;
  for (auto& segment : segments) {
    const config::ParamSpec& spec = *by_name.at(segment.name);
    segment.decays = spec.weight_decay;
    segment.lr_scale = spec.lr_scale;
    segment.is_pretrained = spec.is_pretrained;
    segment.bounds = spec.bounds;
  }
  return segments;
}

StepRunnerParts step_runner_parts(const Training& training, int data_rank, const TrainingHooks& hooks) {
  return {.task = training.faulty_task ? *training.faulty_task : *training.task,
          .sync = *training.sync,
          .precision = *training.precision,
          .scaler = training.scaler.get(),
          .data_rank = data_rank,
          .on_phase_end = hooks.phases == nullptr ? std::function<void(Phase)>()
                                                  : [clock = hooks.phases](Phase phase) { clock->mark(phase); },
          .recorder = hooks.fault ? nullptr : hooks.recorder,
          .on_recording = hooks.on_recording};
}

void prepare_parameter_reads(Training& training) {
  bool waits = false;
  for (nn::Module* unit : training.task->network().units())
    if (auto wait = training.sync->wait_where_used(unit->named_parameters())) {
      unit->set_before_run(std::move(wait));
      waits = true;
    }
  if (!waits) training.precision->cast_weights_at_once();
}

optim::GradSummary update_parameters(parallel::GradSync& sync, optim::Optimizer& optimizer, optim::LossScaler* scaler,
                                     double lr, double grad_clip_norm, const NormShare& norm) {
  const at::Tensor loss_scale = scaler != nullptr ? scaler->scale() : at::Tensor();
  const auto gradients =
      norm.ranks != nullptr
          ? optim::summarise_gradients(counted_of(optimizer.gradients(), norm), grad_clip_norm, loss_scale, norm.ranks)
          : optim::summarise_gradients(optimizer.gradients(), grad_clip_norm, loss_scale, sync.partition().shards);
  optimizer.step(lr, gradients.grad_divisor, gradients.found_inf);
  if (scaler != nullptr) scaler->update(gradients.found_inf);
  sync.publish_params();
  return gradients;
}

at::Tensor params_norm(const optim::Optimizer& optimizer, const NormShare& norm) {
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> parameters;
  for (const optim::Segment& segment : optimizer.segments()) parameters.push_back(segment.parameter);
  const at::Tensor squared = optim::squared_norm(counted_of(parameters, norm));
  norm.ranks->all_reduce(squared).wait();
  return squared.sqrt();
}

at::Tensor num_zeros_in_gradient(const optim::Optimizer& optimizer, const NormShare& norm) {
  const at::Tensor count = optim::count_zeros(counted_of(optimizer.gradients(), norm));
  norm.ranks->all_reduce(count).wait();
  return count;
}

CheckpointState checkpoint_state(const Training& training) {
  CheckpointState state{.tensors = training.task->network().named_parameters(),
                        .optimizer = training.optimizer.get(),
                        .scaler = training.scaler.get(),
                        .shards = training.sync->partition().shards,
                        .layout = training.layout,
                        .replicas = training.data_axis};
  for (const auto& buffer : training.task->network().named_buffers()) state.tensors.push_back(buffer);
  return state;
}

}  // namespace lockstep::train
