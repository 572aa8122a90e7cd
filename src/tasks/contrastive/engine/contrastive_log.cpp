#include "tasks/contrastive/engine/contrastive_log.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "record/openclip_log.h"

namespace lockstep::tasks {
namespace {

/// The addends of the loss, in OpenCLIP's order and under its names.
constexpr const char* kLossParts[] = {"contrastive_loss", "caption_loss", "distill_loss"};

/// Exponential means of values by name: what came `horizon_samples` samples ago counts 1/e of what comes now. The first
/// value of a name is its mean; what is no number is left out.
class SampleMeans {
 public:
  explicit SampleMeans(int64_t horizon_samples) : horizon_samples_(horizon_samples) {}
  bool is_on() const { return horizon_samples_ > 0; }
  void add(const std::string& name, double value, int64_t num_samples) {
    if (!is_on() || !std::isfinite(value)) return;
    const auto [place, is_first] = means_.try_emplace(name, value);
    if (is_first) return;
    const double kept = std::exp(-static_cast<double>(num_samples) / static_cast<double>(horizon_samples_));
    place->second = kept * place->second + (1 - kept) * value;
  }
  /// NaN before the first value.
  double of(const std::string& name) const {
    const auto found = means_.find(name);
    return found != means_.end() ? found->second : NAN;
  }

 private:
  int64_t horizon_samples_;
  std::map<std::string, double> means_;
};

record::OpenClipTrainLine line_of(const train::LogWindow& window, const SampleMeans& means) {
  const train::TrainLogConfig& config = window.config;
  const train::StepValues& values = window.values;
  record::OpenClipTrainLine line;
  const int64_t step_in_epoch = values.step % config.steps_per_epoch;
  line.epoch = values.step / config.steps_per_epoch;
  line.samples_per_epoch = config.steps_per_epoch * config.samples_per_step;
  line.samples_in_epoch = (step_in_epoch + 1) * config.samples_per_step;
  line.percent_of_epoch = 100.0 * static_cast<double>(step_in_epoch + 1) / static_cast<double>(config.steps_per_epoch);
  line.data_s = window.data_s.average();
  line.batch_s = window.batch_s.average();
  line.samples_per_s = static_cast<double>(config.samples_per_step) / std::max(window.batch_s.average(), 1e-9);
  line.samples_per_s_per_rank = line.samples_per_s / config.world_size;
  line.lr = values.lr;
  line.logit_scale = values.find("logit_scale").value_or(0);
  const auto add_loss = [&](const char* name, const record::AverageMeter& of_epoch) {
    line.losses.push_back({name, of_epoch.last(), means.is_on() ? means.of(name) : of_epoch.average()});
  };
  for (const char* name : kLossParts)
    if (const auto part = window.loss_parts.find(name); part != window.loss_parts.end()) add_loss(name, part->second);
  add_loss("loss", window.loss);
  return line;
}

class ContrastiveLogFormat final : public train::LogFormat {
 public:
  explicit ContrastiveLogFormat(int64_t loss_horizon_samples) : means_(loss_horizon_samples) {}
  /// The first step of an epoch, every so many after it, and its last.
  bool is_due(const train::TrainLogConfig& config, int64_t step) const override {
    const int64_t step_in_epoch = step % config.steps_per_epoch;
    const bool is_last = step_in_epoch + 1 == config.steps_per_epoch || step + 1 == config.total_steps;
    return step_in_epoch % config.log_every_n_steps == 0 || is_last;
  }
  std::string step_line(const train::LogWindow& window) const override {
    return record::format_train_line(line_of(window, means_));
  }
  train::Metrics scalars(const train::LogWindow& window) const override {
    return record::openclip_train_scalars(line_of(window, means_), window.data_s.last(), window.batch_s.last());
  }
  std::string result_line(int64_t epoch, int64_t, const train::Metrics& metrics) const override {
    return record::format_eval_summary(epoch, metrics);
  }
  /// Called for every step, before its line.
  void add_to_record(const train::StepValues& values, record::StepRecord& step) const override {
    means_.add("loss", step.loss, step.samples);
    step.scale = values.find("logit_scale");
    step.cached_share = values.find("cached_share");
    for (const char* name : kLossParts)
      if (const auto part = values.find(name)) {
        step.losses.emplace_back(name, *part);
        means_.add(name, *part, step.samples);
      }
  }

 private:
  mutable SampleMeans means_;
};

}  // namespace

std::unique_ptr<train::LogFormat> make_contrastive_log_format(int64_t loss_horizon_samples) {
  return std::make_unique<ContrastiveLogFormat>(loss_horizon_samples);
}

}  // namespace lockstep::tasks
