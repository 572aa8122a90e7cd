#include "tasks/regress/engine/regress_training_task.h"

#include <fmt/format.h>

#include "core/error.h"
#include "optim/adamw.h"
#include "tasks/regress/engine/regress_data.h"
#include "tasks/regress/engine/regress_model.h"

namespace lockstep::tasks {
namespace {

class RegressLogFormat final : public train::LogFormat {
 public:
  bool is_due(const train::TrainLogConfig& config, int64_t step) const override {
    return (step + 1) % config.log_every_n_steps == 0 || step + 1 == config.total_steps;
  }
  std::string step_line(const train::LogWindow& window) const override {
    return fmt::format("step {} of {}: squared error {:.6f}", window.values.step + 1, window.config.total_steps,
                       window.loss.last());
  }
  train::Metrics scalars(const train::LogWindow& window) const override {
    return {{"train/squared_error", window.loss.last()}};
  }
  std::string result_line(int64_t, int64_t, const train::Metrics&) const override { return ""; }
};

class RegressTrainingTask final : public train::TrainingTask {
 public:
  RegressTrainingTask(const RegressOptions& options, comm::World& world, at::Device device,
                      const plan::BatchPlan& batch)
      : options_(options), world_(world), device_(device), batch_(batch) {}

  train::TaskFacts facts() const override {
    return {.num_parameters = options_.num_features + 1,
            .identity = {{"features", options_.num_features}},
            .forward = {2.0 * static_cast<double>(options_.num_features), "2 x features"},
            .is_synthetic = true,
            .layout = fmt::format("dp={}", world_.size())};
  }

  data::EpochSize open_data() override {
    const int64_t num_steps = options_.train_num_samples / batch_.global_batch;
    if (num_steps == 0)
      throw UsageError(fmt::format("data: --train-num-samples {} is less than one global batch of {}",
                                   options_.train_num_samples, batch_.global_batch),
                       "use a smaller --batch-size");
    return {.num_batches = num_steps, .num_samples = num_steps * batch_.global_batch, .origin = "made up"};
  }

  train::Training& build_training(const train::TrainingHooks& hooks) override {
    comm::Comm& data_axis = world_.comm();
    training_.precision = std::make_unique<train::Precision>(options_.precision, device_.type());
    training_.task =
        std::make_unique<RegressTask>(options_.num_features, static_cast<uint64_t>(options_.seed), device_, data_axis);
    training_.faulty_task = train::with_fault(*training_.task, hooks.fault, data_axis.rank());
    training_.data_axis = &data_axis;
    const auto parameters = training_.task->network().named_parameters();
    constexpr int64_t kBucketBytes = 1 << 20;
    training_.sync = data_axis.size() > 1 ? parallel::make_grad_sync_ddp(parameters, data_axis, kBucketBytes)
                                          : parallel::make_grad_sync_none(parameters);
    training_.optimizer = std::make_unique<optim::AdamW>(
        train::optimizer_segments(training_.sync->partition(), regressor_params(options_.num_features)),
        optim::AdamWConfig{.weight_decay = 0});
    training_.learning_rate = [lr = *options_.lr](int64_t, int64_t) { return lr; };
    training_.runner = train::make_plain_step(train::step_runner_parts(training_, data_axis.rank(), hooks));
    return training_;
  }

  std::unique_ptr<train::BatchSource> open_train(const core::Json& position) override {
    return open_regress_data(options_, batch_, world_.rank(), device_, position);
  }
  train::Metrics evaluate(const train::EvaluationTime&) override { return {}; }
  std::unique_ptr<train::LogFormat> log_format() const override { return std::make_unique<RegressLogFormat>(); }

 private:
  const RegressOptions& options_;
  comm::World& world_;
  at::Device device_;
  plan::BatchPlan batch_;
  train::Training training_;
};

}  // namespace

train::TrainRequest regress_train_request(const FrontTask& task, const core::OptionSet& set) {
  const auto& options = options_as<RegressOptions>(task);
  return {.options = options,
          .set = set,
          .facts = regress_run_facts(options),
          .plan_batch = [&](int64_t num_ranks) { return task.batch_plan(set, num_ranks); },
          .make_task = [&options](comm::World& world, at::Device device,
                                  const plan::BatchPlan& batch) -> std::unique_ptr<train::TrainingTask> {
            return std::make_unique<RegressTrainingTask>(options, world, device, batch);
          }};
}

}  // namespace lockstep::tasks
