#include "train/train_log.h"

#include <ATen/DeviceAccelerator.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>

#include "core/log.h"
#include "core/strings.h"

namespace lockstep::train {
namespace {

int64_t peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

TrainLog::TrainLog(const TrainLogConfig& config, std::unique_ptr<LogFormat> format, record::RunRecord& record,
                   const std::optional<record::WandbRun>& wandb)
    : config_(config), format_(std::move(format)), record_(record) {
  if (config.to_tensorboard)
    tensorboard_ = std::make_unique<record::TensorBoardWriter>(record.folder() / "tensorboard", record.queue());
  if (wandb) wandb_ = std::make_unique<record::WandbWriter>(record.folder() / "wandb", *wandb, record.queue());
}

void TrainLog::add(const StepValues& values) {
  const bool is_skipped = values.find("found_inf").value_or(0) != 0;
  if (is_skipped) {
    ++num_skipped_steps_;
    ++num_skipped_in_window_;
    core::log_warning("step {}: gradients are not finite, so the update was skipped ({} so far)", values.step,
                      num_skipped_steps_);
  }
  record_step(values, is_skipped);
  const int64_t epoch = values.step / config_.steps_per_epoch;
  if (epoch != epoch_of_meters_) {
    epoch_of_meters_ = epoch;
    loss_.reset(), batch_s_.reset(), data_s_.reset();
    loss_parts_.clear();
  }
  for (const auto& [name, value] : values.scalars)
    if (core::ends_with(name, "_loss")) loss_parts_[name].update(value, static_cast<double>(config_.samples_per_step));
  loss_.update(values.find("loss").value_or(NAN), static_cast<double>(config_.samples_per_step));
  if (!is_skipped) updated_loss_.update(loss_.last());
  batch_s_.update(values.step_ms / 1000);
  data_s_.update(values.data_wait_ms / 1000);
  recent_step_ms_ = recent_step_ms_ == 0 ? values.step_ms : 0.9 * recent_step_ms_ + 0.1 * values.step_ms;
  num_nan_in_window_ += std::isfinite(values.find("loss").value_or(NAN)) ? 0 : 1;
  if (format_->is_due(config_, values.step)) log_line(values);
  show_progress(values);
}

void TrainLog::record_step(const StepValues& values, bool is_skipped) {
  record::StepRecord step;
  step.step = values.step;
  step.epoch = values.step / config_.steps_per_epoch;
  step.samples = config_.samples_per_step;
  step.samples_seen = values.samples_seen;
  if (config_.tokens_per_step > 0) step.tokens = config_.tokens_per_step;
  step.step_ms = values.step_ms;
  step.data_wait_ms = values.data_wait_ms;
  step.samples_per_s = static_cast<double>(config_.samples_per_step) * 1000 / std::max(values.step_ms, 1e-6);
  step.loss = values.find("loss").value_or(NAN);
  step.lr = values.lr;
  step.grad_norm = values.find("grad_norm");
  if (const auto zeros = values.find("num_zeros"); zeros && !is_skipped) step.num_zeros = static_cast<int64_t>(*zeros);
  step.params_norm = values.find("params_norm");
  step.loss_scale = values.find("loss_scale");
  step.is_skipped = is_skipped;
  step.time_s = values.time_s;
  step.host_memory_bytes = peak_resident_bytes();
  if (!config_.device.is_cpu()) {
    constexpr size_t kAggregate = 0;
    step.device_memory_bytes = at::accelerator::getDeviceStats(config_.device.index()).allocated_bytes[kAggregate].peak;
  }
  step.exposed_comm_ms = values.phases[Phase::kExposedComm];
  for (int i = 0; i < kNumPhases; ++i)
    step.phases_ms.emplace_back(to_text(static_cast<Phase>(i)), values.phases.ms[static_cast<size_t>(i)]);
  format_->add_to_record(values, step);
  record_.append_step(std::move(step));
}

void TrainLog::log_line(const StepValues& values) {
  const LogWindow window{.config = config_,
                         .values = values,
                         .loss = loss_,
                         .batch_s = batch_s_,
                         .data_s = data_s_,
                         .loss_parts = loss_parts_,
                         .num_skipped = num_skipped_in_window_,
                         .num_nan = num_nan_in_window_,
                         .mean_loss = updated_loss_.is_empty() ? loss_.last() : updated_loss_.average()};
  core::log_info("{}", format_->step_line(window));
  if (tensorboard_ || wandb_) {
    const record::NamedNumbers scalars = format_->scalars(window);
    if (tensorboard_) tensorboard_->add_scalars(values.step, scalars);
    if (wandb_) wandb_->add_scalars(values.step, scalars);
  }
  batch_s_.reset(), data_s_.reset(), updated_loss_.reset();
  num_skipped_in_window_ = num_nan_in_window_ = 0;
}

void TrainLog::show_progress(const StepValues& values) {
  if (!core::stderr_is_terminal()) return;
  const double remaining_s = static_cast<double>(config_.total_steps - values.step - 1) * recent_step_ms_ / 1000;
  core::show_progress(
      fmt::format("step {}/{}  loss {:.4f}  {:.1f} samples/s  {} left", values.step + 1, config_.total_steps,
                  values.find("loss").value_or(NAN),
                  static_cast<double>(config_.samples_per_step) * 1000 / std::max(recent_step_ms_, 1e-6),
                  duration_text(remaining_s)));
}

void TrainLog::add_result(int64_t epoch, int64_t step, const std::string& name, const record::NamedNumbers& metrics,
                          double seconds) {
  core::log_info("{}", format_->result_line(epoch, step, metrics));
  record::NamedNumbers scalars;
  for (const auto& [key, value] : metrics) scalars.emplace_back("val/" + key, value);
  if (tensorboard_) tensorboard_->add_scalars(epoch, scalars);
  if (wandb_) {
    scalars.emplace_back("epoch", static_cast<double>(epoch));
    wandb_->add_scalars(step, scalars);
  }
  record_.append_result({.step = step, .epoch = epoch, .name = name, .metrics = metrics, .seconds = seconds});
}

void TrainLog::finish(int exit_code) {
  if (wandb_) wandb_->finish(exit_code);
}

}  // namespace lockstep::train
