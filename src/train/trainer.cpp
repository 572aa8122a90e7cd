#include "train/trainer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "core/log.h"
#include "core/rng.h"
#include "parallel/replica_check.h"

namespace lockstep::train {
namespace {

/// Steps between a step and the reading of its device scalars: the loop never waits for the values of the step it is in.
constexpr int64_t kReadDelaySteps = 2;

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point start) { return std::chrono::duration<double, std::milli>(Clock::now() - start).count(); }

}  // namespace

Trainer::Trainer(const TrainerConfig& config, const TrainerParts& parts, const TrainerPosition& start)
    : config_(config), parts_(parts), position_(start), telemetry_(parts.world, parts.mover.device()), last_saved_step_(start.step) {}

ExitCode Trainer::run() {
  step_began_ = Clock::now();
  while (position_.step < config_.last_step() && wish_ != StopRequest::kSaveAndStop) {
    step();
    digest(telemetry_.take(kReadDelaySteps));
    at_boundaries();
    if (wish_ == StopRequest::kSaveAndGoOn) {
      save();
      wish_ = StopRequest::kNone;
    }
  }
  digest(telemetry_.take(0));
  save();
  parts_.finish_saving();
  if (position_.step >= config_.last_step()) {
    if (position_.step % config_.steps_per_epoch != 0) parts_.evaluate(config_.num_epochs, position_.step);
    core::log_info("finished after {} steps{}", position_.step, position_.step < config_.total_steps() ? " (--max-steps)" : "");
    return ExitCode::kOk;
  }
  core::log_info("stopped on request after {} steps; continue with --resume latest", position_.step);
  return ExitCode::kRequeue;
}

void Trainer::step() {
  auto micro_batches = next_micro_batches();
  const StepOutcome outcome = parts_.runner.run(micro_batches, core::stream_key({config_.seed, static_cast<uint64_t>(position_.step)}));
  const auto loss_scale = parts_.scaler != nullptr ? parts_.scaler->scale() : at::Tensor();
  const auto gradients = optim::summarise_gradients(parts_.optimizer.gradients(), config_.grad_clip_norm, loss_scale);
  const double lr = config_.schedule.lr(position_.step);
  parts_.optimizer.step(lr, gradients.grad_divisor, gradients.found_inf);
  if (parts_.scaler != nullptr) parts_.scaler->update(gradients.found_inf);
  parts_.sync.publish_params();
  parts_.task.after_step();
  ++position_.step;
  position_.samples_seen += config_.samples_per_step;
  push_telemetry(outcome, gradients, lr);
}

std::vector<models::Batch> Trainer::next_micro_batches() {
  std::vector<models::Batch> batches;
  data_wait_ms_ = 0;
  for (int64_t micro = 0; micro < config_.micro_batches_per_step; ++micro) {
    const auto began = Clock::now();
    data::HostBatch host = parts_.loader.next();
    data_wait_ms_ += ms_since(began);
    batches.push_back(parts_.mover.to_device(host));
    parts_.loader.recycle(std::move(host));
  }
  return batches;
}

void Trainer::push_telemetry(const StepOutcome& outcome, const optim::GradSummary& gradients, double lr) {
  StepSample sample;
  sample.step = position_.step - 1;
  sample.samples_seen = position_.samples_seen;
  sample.lr = lr;
  sample.step_ms = ms_since(step_began_);
  step_began_ = Clock::now();
  sample.data_wait_ms = data_wait_ms_;
  sample.wish = take_stop_request();
  sample.scalars = outcome.scalars;
  sample.scalars.emplace_back("grad_norm", gradients.norm);
  sample.scalars.emplace_back("found_inf", gradients.found_inf);
  if (parts_.scaler != nullptr) sample.scalars.emplace_back("loss_scale", parts_.scaler->scale().clone());
  interval_step_ms_ += sample.step_ms;
  interval_wait_ms_ += sample.data_wait_ms;
  ++interval_steps_;
  telemetry_.push(std::move(sample));
}

void Trainer::digest(const std::vector<StepValues>& values) {
  for (const StepValues& step : values) {
    wish_ = std::max(wish_, step.wish);
    if (parts_.log != nullptr) parts_.log->add(step);
  }
}

void Trainer::at_boundaries() {
  const int64_t step = position_.step;
  const bool ends_epoch = step % config_.steps_per_epoch == 0;
  if (step % config_.log_every_n_steps == 0 || ends_epoch) gather_rank_times();
  if (config_.check_replicas_steps > 0 && step % config_.check_replicas_steps == 0)
    parallel::check_replicas(parts_.task.network().named_parameters(), parts_.data_axis);
  const bool saves_epoch = ends_epoch && config_.save_frequency_epochs > 0 && step / config_.steps_per_epoch % config_.save_frequency_epochs == 0;
  const bool saves_step = config_.save_every_n_steps > 0 && step % config_.save_every_n_steps == 0;
  if (saves_epoch || saves_step) save();
  if (ends_epoch) {
    digest(telemetry_.take(0));  // the epoch's last lines come before its evaluation
    if (wish_ != StopRequest::kSaveAndStop || step == config_.last_step()) parts_.evaluate(step / config_.steps_per_epoch, step);
  }
  if (ends_epoch || saves_step) step_began_ = Clock::now();  // not part of the next step
}

void Trainer::gather_rank_times() {
  const int64_t num_steps = std::exchange(interval_steps_, 0);
  auto mine = at::tensor(std::initializer_list<double>{interval_step_ms_, interval_wait_ms_}, at::kDouble) /
              static_cast<double>(std::max<int64_t>(1, num_steps));
  auto all = at::empty({2 * parts_.world.size()}, mine.options().device(parts_.mover.device()));
  parts_.world.all_gather_into(all, mine.to(parts_.mover.device())).wait();
  interval_step_ms_ = interval_wait_ms_ = 0;
  if (!parts_.record_interval || num_steps == 0) return;
  const auto host = all.to(at::kCPU);  // sync: once per log interval
  RankTimes times{.step = position_.step - 1, .num_steps = num_steps, .step_ms = {}, .data_wait_ms = {}};
  for (int rank = 0; rank < parts_.world.size(); ++rank) {
    times.step_ms.push_back(host[2 * rank].item<double>());
    times.data_wait_ms.push_back(host[2 * rank + 1].item<double>());
  }
  parts_.record_interval(times);
}

void Trainer::save() {
  if (position_.step == last_saved_step_) return;
  position_.data = parts_.loader.position();
  parts_.save(position_);
  last_saved_step_ = position_.step;
}

}  // namespace lockstep::train
