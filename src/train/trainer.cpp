#include "train/trainer.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <utility>

#include "core/clock.h"
#include "core/counted.h"
#include "core/log.h"
#include "core/rng.h"
#include "parallel/replica_check.h"
#include "train/training.h"

namespace lockstep::train {
namespace {

/// Steps between a step and the reading of its device scalars: the loop never waits for the values of the step it is
/// in.
constexpr int64_t kReadDelaySteps = 2;

}  // namespace

Trainer::Trainer(const TrainerConfig& config, const TrainerParts& parts, const TrainerPosition& start)
    : config_(config), parts_(parts), position_(start), telemetry_(parts.world, parts.device),
      interval_begin_(start.step), last_saved_step_(start.step) {}

ExitCode Trainer::run() {
  if (position_.step >= config_.last_step() && parts_.world.rank() == 0)
    core::log_warning("train: {} {} done already, the run is to have {}: nothing to train",
                      core::counted(position_.step, "step"), position_.step == 1 ? "is" : "are", config_.last_step());
  parts_.phases.restart();
  if (parts_.world.size() == 1) stop_request_ = take_stop_request();  // while the run was starting
  while (position_.step < config_.last_step() && stop_request_ < StopRequest::kSaveAndFinish) {
    parts_.callbacks.before_step(position_.step);
    step();
    take_own_request();
    digest(telemetry_.take(kReadDelaySteps));
    at_boundaries();
    if (stop_request_ == StopRequest::kSaveAndGoOn) {
      stop_request_ = StopRequest::kNone;  // before save(), which may read a request of a later step
      save();
      parts_.phases.skip();
    }
  }
  return finish();
}

ExitCode Trainer::finish() {
  parts_.callbacks.before_step(position_.step);
  digest(telemetry_.take(0));
  end_interval();
  save();
  parts_.callbacks.finish_saving();
  if (position_.step >= config_.last_step()) {
    if (position_.step % config_.steps_per_epoch != 0) parts_.callbacks.evaluate(evaluation_now());
    if (config_.early_end)
      log_stop(config_.early_end->flag);
    else
      core::log_info("finished after {}{}", core::counted(position_.step, "step"),
                     position_.step < config_.total_steps() ? fmt::format(" of {}", config_.total_steps()) : "");
    return ExitCode::kOk;
  }
  const bool is_time_up = stop_request_ == StopRequest::kSaveAndFinish;
  log_stop(is_time_up ? "--exit-duration-in-mins" : "a signal");
  return is_time_up ? ExitCode::kOk : ExitCode::kRequeue;
}

/// Of a run that is not complete: why, where, what was saved, and how to go on.
void Trainer::log_stop(const std::string& why) const {
  const int64_t step = position_.step;
  core::log_info("stopped by {} after {} of {}: {}; the same command with {} continues the run", why,
                 core::counted(step, "step"),
                 config_.early_end ? config_.early_end->planned_steps : config_.last_step(),
                 step == 0                  ? "there was nothing to save"
                 : step == last_saved_step_ ? fmt::format("the checkpoint of step {} is saved", step)
                                            : fmt::format("no checkpoint of step {} was saved", step),
                 config_.flags_to_resume);
}

void Trainer::step() {
  RECORD_USER_SCOPE("step");
  auto micro_batches = next_micro_batches();
  StepOutcome outcome = parts_.training.runner->run(
      micro_batches, core::stream_key({config_.seed, static_cast<uint64_t>(position_.step)}));
  const double lr = parts_.training.learning_rate(position_.step, position_.samples_seen);
  const auto gradients = update(lr, outcome);
  ++position_.step;
  position_.samples_seen += config_.samples_per_step;
  push_telemetry(outcome, gradients, lr);
}

optim::GradSummary Trainer::update(double lr, StepOutcome& outcome) {
  RECORD_USER_SCOPE("optimizer");
  Training& training = parts_.training;
  const bool is_logged =
      (position_.step + 1) % config_.log_every_n_steps == 0 || position_.step + 1 == config_.last_step();
  if (is_logged && config_.logs_num_zeros)
    outcome.scalars.emplace_back("num_zeros", num_zeros_in_gradient(*training.optimizer, training.norm));
  auto gradients = training.update(lr, config_.grad_clip_norm);
  if (is_logged && config_.logs_params_norm)
    outcome.scalars.emplace_back("params_norm", params_norm(*training.optimizer, training.norm));
  parts_.phases.mark(Phase::kOptimizer);
  return gradients;
}

std::vector<models::Batch> Trainer::next_micro_batches() {
  RECORD_USER_SCOPE("data");
  parts_.phases.mark(Phase::kOther);  // what came after the step before
  std::vector<models::Batch> batches;
  for (int64_t micro = 0; micro < config_.micro_batches_per_step; ++micro)
    batches.push_back(parts_.batches.next(parts_.phases));
  return batches;
}

StopRequest Trainer::own_request() {
  return std::max(take_stop_request(),
                  parts_.callbacks.is_time_up() ? StopRequest::kSaveAndFinish : StopRequest::kNone);
}

/// One rank has nobody to agree with: it need not wait until the values of this step are read.
void Trainer::take_own_request() {
  if (parts_.world.size() == 1) stop_request_ = std::max(stop_request_, own_request());
}

void Trainer::push_telemetry(const StepOutcome& outcome, const optim::GradSummary& gradients, double lr) {
  StepSample sample;
  sample.step = position_.step - 1;
  sample.samples_seen = position_.samples_seen;
  sample.lr = lr;
  sample.phases = parts_.phases.finish_step();
  sample.time_s = core::unix_seconds();
  if (parts_.world.size() > 1) sample.request = own_request();
  sample.scalars = outcome.scalars;
  sample.scalars.emplace_back("grad_norm", gradients.norm);
  sample.scalars.emplace_back("found_inf", gradients.found_inf);
  if (const auto& scaler = parts_.training.scaler) sample.scalars.emplace_back("loss_scale", scaler->scale().clone());
  telemetry_.push(std::move(sample));
}

void Trainer::digest(const std::vector<StepValues>& values) {
  for (const StepValues& step : values) {
    stop_request_ = std::max(stop_request_, step.request);
    if (num_digested_++ == 0) parts_.callbacks.record_first_step(step.phases);
    interval_.step = step.step;
    ++interval_.num_steps;
    interval_.step_ms += step.phases.sum();
    interval_.phases += step.phases;
    if (parts_.log != nullptr) parts_.log->add(step);
  }
}

void Trainer::at_boundaries() {
  const Training& training = parts_.training;
  const int64_t step = position_.step;
  const bool ends_epoch = step % config_.steps_per_epoch == 0;
  if (ends_epoch) digest(telemetry_.take(0));  // the epoch's last lines come before its evaluation
  if (step % config_.log_every_n_steps == 0 || ends_epoch) end_interval();
  parts_.phases.mark(Phase::kTelemetry);
  const bool checks_replicas = config_.check_replicas_steps > 0 && step % config_.check_replicas_steps == 0;
  const bool evaluates = ends_epoch && (stop_request_ < StopRequest::kSaveAndFinish || step == config_.last_step());
  if (checks_replicas || evaluates) training.sync->wait_params();
  if (checks_replicas) parallel::check_replicas(training.task->network().named_parameters(), *training.data_axis);
  const bool saves_epoch = ends_epoch && config_.save_frequency_epochs > 0 &&
                           step / config_.steps_per_epoch % config_.save_frequency_epochs == 0;
  const bool saves_step = config_.save_every_n_steps > 0 && step % config_.save_every_n_steps == 0;
  // What is asked for in any case is saved before it is ranked: a checkpoint saved for its rank alone may go again.
  const bool is_due = stop_request_ != StopRequest::kNone || step == config_.last_step();
  if (saves_epoch || saves_step || (evaluates && is_due)) save();
  if (evaluates && parts_.callbacks.evaluate(evaluation_now())) save();
  parts_.phases.skip();  // none of this is part of the next step
}

EvaluationTime Trainer::evaluation_now() const {
  const int64_t steps = config_.steps_per_epoch;
  return {.epochs_done = (position_.step + steps - 1) / steps,
          .steps_done = position_.step,
          .is_last = position_.step >= config_.last_step()};
}

void Trainer::end_interval() {
  if (interval_.num_steps == 0) return;
  IntervalTimes means = std::exchange(interval_, {});
  means.last_run_step = position_.step - 1;
  means.num_run_steps = position_.step - std::exchange(interval_begin_, position_.step);
  means.step_ms /= static_cast<double>(means.num_steps);
  means.phases /= static_cast<double>(means.num_steps);
  parts_.callbacks.record_interval(means);
}

void Trainer::save() {
  if (position_.step == last_saved_step_) return;
  digest(telemetry_.take(0));  // a run that goes on from here has the lines of all steps before
  position_.data = parts_.batches.position();
  parts_.training.sync->wait_params();
  if (parts_.callbacks.save(position_)) last_saved_step_ = position_.step;
}

}  // namespace lockstep::train
