#include "tasks/gpt/engine/gpt_training_task.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>
#include <string>

#include "comm/mesh_groups.h"
#include "comm/world.h"
#include "config/option_checks.h"
#include "core/error.h"
#include "core/log.h"
#include "models/gpt/gpt_task.h"
#include "models/gpt/gpt_weights.h"
#include "nn/fp8.h"
#include "optim/megatron_schedule.h"
#include "record/megatron_line.h"
#include "tasks/gpt/engine/gpt_data.h"
#include "tasks/gpt/engine/gpt_fit.h"
#include "tasks/gpt/engine/gpt_log.h"
#include "tasks/gpt/engine/gpt_training.h"
#include "tasks/gpt/front/gpt_plan.h"
#include "train/agree.h"

namespace lockstep::tasks {
namespace {

optim::MegatronSchedule make_schedule(const GptOptions& o, int64_t num_steps, int64_t global_batch) {
  optim::MegatronSchedule schedule{.style = o.lr_decay_style,
                                   .max_lr = *o.lr,
                                   .min_lr = o.min_lr,
                                   .warmup_init = o.lr_warmup_init,
                                   .tail_style = o.lr_wsd_decay_style};
  const int64_t whole_run = o.train_samples.value_or(num_steps * global_batch);
  schedule.decay_samples = o.lr_decay_samples.value_or(o.lr_decay_iters ? *o.lr_decay_iters * global_batch : whole_run);
  schedule.warmup_samples = o.lr_warmup_fraction
                                ? *o.lr_warmup_fraction * static_cast<double>(schedule.decay_samples)
                                : static_cast<double>(o.lr_warmup_samples + o.lr_warmup_iters * global_batch);
  schedule.tail_samples = o.lr_wsd_decay_iters.value_or(0) * global_batch;
  return schedule;
}

class GptTrainingTask final : public train::TrainingTask {
 public:
  GptTrainingTask(const GptOptions& options, comm::World& world, at::Device device)
      : options_(options), world_(world), device_(device), layout_(train_gpt_layout(options, world.size())),
        groups_(comm::make_mesh_groups(
            layout_.mesh, world.comm(),
            [&world](const std::string& axis, const std::vector<int>& ranks) { return world.group(axis, ranks); })) {
    train::check_memory_fits(planned_gpt_memory(options_, layout_, device_), groups_.world, device_);
  }

  train::Training& build_training(const train::TrainingHooks& hooks) override {
    phases_ = hooks.phases;
    if (world_.rank() == 0 && options_.fp8_format && !device_.is_cpu()) warn_of_slow_products();
    training_ = build_gpt_training(options_, layout_, groups_, device_, hooks);
    training_.learning_rate = [schedule = make_schedule(options_, num_steps(), layout_.batch.global_batch)](
                                  int64_t, int64_t samples_seen) { return schedule.lr(samples_seen); };
    return training_;
  }

  data::EpochSize open_data() override {
    const auto open = [&] { data_.emplace(options_, layout_, groups_.mesh.point(), device_); };
    const auto open_first = [&] {
      open();
      return std::string();
    };
    // Rank 0 makes the indices; the others find them, also on file systems without locks.
    train::decide_on_rank_zero(world_.comm(), open_first,
                               [&] { world_.wait_for_rank_zero("it makes the indices of the tokens"); });
    const auto open_others = [&] {
      if (world_.rank() != 0) open();
    };
    train::succeed_together(world_.comm(), open_others, [&] { world_.wait_for_all("they open the tokens"); });
    if (world_.rank() == 0)
      core::log_info("vocabulary: {} tokens in {} rows", layout_.shape.vocab, layout_.shape.padded_vocab(layout_.tp()));
    const int64_t steps = gpt_steps_per_epoch(options_, num_steps());
    return {.num_batches = steps,
            .num_samples = steps * layout_.batch.global_batch,
            .origin = fmt::format("samples {}", data_->hash())};
  }

  train::TaskFacts facts() const override {
    const config::GptCost cost = config::gpt_cost(layout_.shape, layout_.tp());
    return {
        .num_parameters = cost.parameters,
        .model = {{"virtual_stages", layout_.pipe.num_chunks},
                  {"schedule", std::string(plan::schedule_name(layout_.pipe.kind))}},
        .identity = gpt_model_facts(layout_.shape),
        .forward = config::gpt_forward(config::gpt_dims(layout_.shape, layout_.tp()), config::AttentionCount::kCausal),
        .sequence_length = layout_.shape.sequence,
        .is_synthetic = options_.mock_data,
        .sample_unit = "sequences",
        .layout = fmt::format("dp={} tp={} pp={}", layout_.dp(), layout_.tp(), layout_.pp()),
        .has_epochs = false};
  }

  train::Snapshot find_snapshot() override { return find_gpt_snapshot(options_, world_.comm()); }

  std::unique_ptr<train::BatchSource> open_train(const core::Json& position) override {
    return data_->open_train(position);
  }
  std::unique_ptr<train::LogFormat> log_format() const override { return make_gpt_log_format(); }

  train::Metrics evaluate(const train::EvaluationTime& when) override {
    const auto source = data_->open_validation(std::max<int64_t>(0, when.epochs_done - 1));
    if (!source) return {};
    const train::PipelineParts pipeline =
        gpt_pipeline_parts(*training_.stage, layout_, groups_, {device_, training_.precision->input_type()},
                           options_.calculate_per_token_loss);
    training_.task->network().set_training(false);
    train::LossSum total;
    for (int64_t i = 0; i < options_.eval_iters; ++i) {
      std::vector<models::Batch> batches;
      for (int64_t micro = 0; micro < layout_.batch.num_micro_batches; ++micro)
        batches.push_back(source->next(*phases_));
      total += train::pipeline_loss(pipeline, *training_.precision, batches);
      if (world_.rank() == 0)
        core::show_progress(fmt::format("evaluation: {} of {} iterations", i + 1, options_.eval_iters));
    }
    core::end_progress();
    training_.task->network().set_training(true);
    const double loss = total.mean();
    return {{"lm loss", loss}, {"lm loss PPL", record::perplexity(loss)}};
  }

 private:
  /// Products of 8 bits that are emulated take longer than those of 16.
  void warn_of_slow_products() const {
    const int64_t num_tokens = layout_.batch.micro_batch_size * layout_.shape.sequence;
    if (nn::fp8_engine_of(device_) == nn::Fp8Engine::kEmulated)
      core::log_warning(
          "train: {} has no products of 8 bits (GPUs have from compute capability 8.9 on): they are "
          "emulated in fp32, slower than bf16 without --fp8-format",
          device_.str());
    else if (num_tokens % nn::kScaledMmMultiple != 0)
      core::log_warning(
          "train: a micro-batch has {} tokens, no multiple of {}: gradients of weights are emulated in "
          "fp32 instead of 8 bits, which is slow",
          num_tokens, nn::kScaledMmMultiple);
  }

  int64_t num_steps() const { return gpt_train_steps(options_, layout_.batch.global_batch); }

  const GptOptions& options_;
  comm::World& world_;
  at::Device device_;
  plan::GptLayout layout_;
  comm::MeshGroups groups_;
  GptTraining training_;
  std::optional<GptData> data_;
  train::PhaseClock* phases_ = nullptr;
};

}  // namespace

train::TrainRequest gpt_train_request(const FrontTask& task, const core::OptionSet& set) {
  const auto& options = options_as<GptOptions>(task);
  return {.options = options,
          .set = set,
          .facts = gpt_run_facts(options),
          .plan_batch = [&](int64_t num_ranks) { return task.batch_plan(set, num_ranks); },
          .make_task = [&options, &set](comm::World& world, at::Device device,
                                        const plan::BatchPlan&) -> std::unique_ptr<train::TrainingTask> {
            for (const std::string& text : config::yielding_texts(set)) core::log_info("{}", text);
            return std::make_unique<GptTrainingTask>(options, world, device);
          }};
}

}  // namespace lockstep::tasks
