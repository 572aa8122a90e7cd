#include "tasks/gpt/engine/gpt_log.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "record/megatron_line.h"

namespace lockstep::tasks {
namespace {

/// Nothing in place of a number that is none.
std::optional<double> finite(std::optional<double> value) {
  return value && std::isfinite(*value) ? value : std::nullopt;
}

double step_seconds(const train::LogWindow& window) { return std::max(window.batch_s.average(), 1e-9); }

class GptLogFormat final : public train::LogFormat {
 public:
  bool is_due(const train::TrainLogConfig& config, int64_t step) const override {
    return (step + 1) % config.log_every_n_steps == 0 || step + 1 == config.total_steps;
  }

  std::string step_line(const train::LogWindow& window) const override {
    const train::TrainLogConfig& config = window.config;
    const train::StepValues& values = window.values;
    const double step_s = step_seconds(window), devices = config.world_size;
    const bool is_skipped = values.find("found_inf").value_or(0) != 0;
    return record::format_megatron_line(
        {.time_s = values.time_s,
         .iteration = values.step + 1,
         .num_iterations = config.total_steps,
         .consumed_samples = values.samples_seen,
         .iteration_ms = step_s * 1000,
         .tflops_per_device = config.train_flops_per_step / (step_s * devices * 1e12),
         .tokens_per_s_per_device = static_cast<double>(config.tokens_per_step) / (step_s * devices),
         .lr = values.lr,
         .global_batch = config.samples_per_step,
         .loss = window.mean_loss,
         .loss_scale = values.find("loss_scale").value_or(1.0),
         .grad_norm = finite(values.find("grad_norm")),
         .num_zeros = is_skipped ? std::nullopt : values.find("num_zeros"),
         .params_norm = values.find("params_norm"),
         .num_skipped = window.num_skipped,
         .num_nan = window.num_nan});
  }

  train::Metrics scalars(const train::LogWindow& window) const override {
    const train::StepValues& values = window.values;
    train::Metrics scalars = {{"lm loss", window.loss.last()},
                              {"learning-rate", values.lr},
                              {"iteration-time", step_seconds(window)},
                              {"grad-norm", values.find("grad_norm").value_or(NAN)}};
    for (const auto& [name, tag] : {std::pair("num_zeros", "num-zeros"), std::pair("params_norm", "params-norm")})
      if (const auto value = values.find(name)) scalars.emplace_back(tag, *value);
    return scalars;
  }

  std::string result_line(int64_t, int64_t step, const train::Metrics& metrics) const override {
    return record::format_megatron_validation(step, metrics.at(0).second);
  }
};

}  // namespace

std::unique_ptr<train::LogFormat> make_gpt_log_format() { return std::make_unique<GptLogFormat>(); }

}  // namespace lockstep::tasks
