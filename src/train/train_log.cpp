#include "train/train_log.h"

#include <ATen/DeviceAccelerator.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>

#include "core/log.h"
#include "record/megatron_line.h"

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

/// Nothing in place of a number that is none.
std::optional<double> finite(std::optional<double> value) {
  return value && std::isfinite(*value) ? value : std::nullopt;
}

}  // namespace

TrainLog::TrainLog(const TrainLogConfig& config, record::RunRecord& record) : config_(config), record_(record) {
  if (config.to_tensorboard)
    tensorboard_ = std::make_unique<record::TensorBoardWriter>(record.folder() / "tensorboard", record.queue());
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
  }
  loss_.update(values.find("loss").value_or(NAN), static_cast<double>(config_.samples_per_step));
  batch_s_.update(values.step_ms / 1000);
  data_s_.update(values.data_wait_ms / 1000);
  recent_step_ms_ = recent_step_ms_ == 0 ? values.step_ms : 0.9 * recent_step_ms_ + 0.1 * values.step_ms;
  const int64_t step_in_epoch = values.step % config_.steps_per_epoch;
  const bool is_last = step_in_epoch + 1 == config_.steps_per_epoch || values.step + 1 == config_.total_steps;
  if (config_.is_megatron) {
    num_nan_in_window_ += std::isfinite(values.find("loss").value_or(NAN)) ? 0 : 1;
    if ((values.step + 1) % config_.log_every_n_steps == 0 || values.step + 1 == config_.total_steps)
      log_megatron_line(values);
  } else if (step_in_epoch % config_.log_every_n_steps == 0 || is_last) {
    log_line(values);
  }
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
  step.scale = values.find("logit_scale");
  step.loss_scale = values.find("loss_scale");
  step.is_skipped = is_skipped;
  step.time_s = values.time_s;
  if (const auto part = values.find("contrastive_loss")) step.losses = {{"contrastive_loss", *part}};
  step.host_memory_bytes = peak_resident_bytes();
  if (config_.device.is_cuda()) {
    constexpr size_t kAggregate = 0;
    step.device_memory_bytes = at::accelerator::getDeviceStats(config_.device.index()).allocated_bytes[kAggregate].peak;
  }
  step.exposed_comm_ms = values.phases[Phase::kExposedComm];
  for (int i = 0; i < kNumPhases; ++i)
    step.phases_ms.emplace_back(to_text(static_cast<Phase>(i)), values.phases.ms[static_cast<size_t>(i)]);
  record_.append_step(std::move(step));
}

void TrainLog::log_line(const StepValues& values) {
  record::OpenClipTrainLine line;
  const int64_t step_in_epoch = values.step % config_.steps_per_epoch;
  line.epoch = values.step / config_.steps_per_epoch;
  line.samples_per_epoch = config_.steps_per_epoch * config_.samples_per_step;
  line.samples_in_epoch = (step_in_epoch + 1) * config_.samples_per_step;
  line.percent_of_epoch = 100.0 * static_cast<double>(step_in_epoch + 1) / static_cast<double>(config_.steps_per_epoch);
  line.data_s = data_s_.average();
  line.batch_s = batch_s_.average();
  line.samples_per_s = static_cast<double>(config_.samples_per_step) / std::max(batch_s_.average(), 1e-9);
  line.samples_per_s_per_rank = line.samples_per_s / config_.world_size;
  line.lr = values.lr;
  line.logit_scale = values.find("logit_scale").value_or(0);
  for (const char* name : {"contrastive_loss", "loss"}) line.losses.push_back({name, loss_.last(), loss_.average()});
  core::log_info("{}", record::format_train_line(line));
  if (tensorboard_)
    tensorboard_->add_scalars(values.step, record::openclip_train_scalars(line, data_s_.last(), batch_s_.last()));
  batch_s_.reset(), data_s_.reset();
}

void TrainLog::log_megatron_line(const StepValues& values) {
  const double step_s = std::max(batch_s_.average(), 1e-9), devices = config_.world_size;
  const bool is_skipped = values.find("found_inf").value_or(0) != 0;
  core::log_info("{}",
                 record::format_megatron_line(
                     {.time_s = values.time_s,
                      .iteration = values.step + 1,
                      .num_iterations = config_.total_steps,
                      .consumed_samples = values.samples_seen,
                      .iteration_ms = step_s * 1000,
                      .tflops_per_device = config_.train_flops_per_step / (step_s * devices * 1e12),
                      .tokens_per_s_per_device = static_cast<double>(config_.tokens_per_step) / (step_s * devices),
                      .lr = values.lr,
                      .global_batch = config_.samples_per_step,
                      .loss = loss_.last(),
                      .loss_scale = values.find("loss_scale").value_or(1.0),
                      .grad_norm = finite(values.find("grad_norm")),
                      .num_zeros = is_skipped ? std::nullopt : values.find("num_zeros"),
                      .params_norm = values.find("params_norm"),
                      .num_skipped = num_skipped_in_window_,
                      .num_nan = num_nan_in_window_}));
  if (tensorboard_) {
    record::NamedNumbers scalars = {{"lm loss", loss_.last()},
                                    {"learning-rate", values.lr},
                                    {"iteration-time", step_s},
                                    {"grad-norm", values.find("grad_norm").value_or(NAN)}};
    for (const auto& [name, tag] : {std::pair("num_zeros", "num-zeros"), std::pair("params_norm", "params-norm")})
      if (const auto value = values.find(name)) scalars.emplace_back(tag, *value);
    tensorboard_->add_scalars(values.step, scalars);
  }
  batch_s_.reset(), data_s_.reset();
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
  core::log_info("{}", config_.is_megatron ? record::format_megatron_validation(step, metrics.at(0).second)
                                           : record::format_eval_summary(epoch, metrics));
  if (tensorboard_) {
    record::NamedNumbers scalars;
    for (const auto& [key, value] : metrics) scalars.emplace_back("val/" + key, value);
    tensorboard_->add_scalars(epoch, scalars);
  }
  record_.append_result({.step = step, .epoch = epoch, .name = name, .metrics = metrics, .seconds = seconds});
}

}  // namespace lockstep::train
