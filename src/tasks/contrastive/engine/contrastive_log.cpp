#include "tasks/contrastive/engine/contrastive_log.h"

#include <algorithm>

#include "record/openclip_log.h"

namespace lockstep::tasks {
namespace {

/// The addends of the loss, in OpenCLIP's order and under its names.
constexpr const char* kLossParts[] = {"contrastive_loss", "caption_loss", "distill_loss"};

record::OpenClipTrainLine line_of(const train::LogWindow& window) {
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
  for (const char* name : kLossParts)
    if (const auto part = window.loss_parts.find(name); part != window.loss_parts.end())
      line.losses.push_back({name, part->second.last(), part->second.average()});
  line.losses.push_back({"loss", window.loss.last(), window.loss.average()});
  return line;
}

class ContrastiveLogFormat final : public train::LogFormat {
 public:
  /// The first step of an epoch, every so many after it, and its last.
  bool is_due(const train::TrainLogConfig& config, int64_t step) const override {
    const int64_t step_in_epoch = step % config.steps_per_epoch;
    const bool is_last = step_in_epoch + 1 == config.steps_per_epoch || step + 1 == config.total_steps;
    return step_in_epoch % config.log_every_n_steps == 0 || is_last;
  }
  std::string step_line(const train::LogWindow& window) const override {
    return record::format_train_line(line_of(window));
  }
  train::Metrics scalars(const train::LogWindow& window) const override {
    return record::openclip_train_scalars(line_of(window), window.data_s.last(), window.batch_s.last());
  }
  std::string result_line(int64_t epoch, int64_t, const train::Metrics& metrics) const override {
    return record::format_eval_summary(epoch, metrics);
  }
  void add_to_record(const train::StepValues& values, record::StepRecord& step) const override {
    step.scale = values.find("logit_scale");
    step.cached_share = values.find("cached_share");
    for (const char* name : kLossParts)
      if (const auto part = values.find(name)) step.losses.emplace_back(name, *part);
  }
};

}  // namespace

std::unique_ptr<train::LogFormat> make_contrastive_log_format() { return std::make_unique<ContrastiveLogFormat>(); }

}  // namespace lockstep::tasks
