#include "train/gpt_kit.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>

#include "comm/mesh_groups.h"
#include "core/error.h"
#include "core/log.h"
#include "models/gpt/gpt_task.h"
#include "models/gpt/gpt_weights.h"
#include "optim/megatron_schedule.h"
#include "plan/gpt_train.h"
#include "record/megatron_line.h"
#include "train/agree.h"
#include "train/gpt_data.h"
#include "train/gpt_fit.h"
#include "train/gpt_training.h"

namespace lockstep::train {
namespace {

/// Steps between two evaluations; without evaluation the whole run.
int64_t steps_per_epoch(const config::GptOptions& options, int64_t num_steps) {
  return options.eval_iters > 0 ? std::min(options.eval_interval.value_or(num_steps), num_steps) : num_steps;
}

optim::MegatronSchedule make_schedule(const config::GptOptions& o, int64_t num_steps, int64_t global_batch) {
  optim::MegatronSchedule schedule{.style = o.lr_decay_style,
                                   .max_lr = *o.lr,
                                   .min_lr = o.min_lr,
                                   .warmup_init = o.lr_warmup_init,
                                   .tail_style = o.lr_wsd_decay_style};
  const int64_t whole_run = o.train_samples.value_or(num_steps * global_batch);
  schedule.decay_samples = o.lr_decay_samples.value_or(o.lr_decay_iters ? *o.lr_decay_iters * global_batch : whole_run);
  schedule.warmup_samples = o.lr_warmup_samples + o.lr_warmup_iters * global_batch;
  if (o.lr_warmup_fraction)
    schedule.warmup_samples = static_cast<int64_t>(*o.lr_warmup_fraction * static_cast<double>(schedule.decay_samples));
  schedule.tail_samples = o.lr_wsd_decay_iters.value_or(0) * global_batch;
  return schedule;
}

class GptKit final : public TaskKit {
 public:
  GptKit(const config::GptOptions& options, comm::World& world, at::Device device)
      : options_(options), world_(world), device_(device), layout_(plan::train_gpt_layout(options, world.size())),
        groups_(comm::make_mesh_groups(
            layout_.mesh, world.comm(),
            [&world](const std::string& axis, const std::vector<int>& ranks) { return world.group(axis, ranks); })) {
    check_gpt_fits(options_, layout_, groups_, device_);
  }

  Training build_training(const TrainingHooks& hooks) override {
    phases_ = hooks.phases;
    return build_gpt_training(options_, layout_, groups_, device_, hooks);
  }

  void open_data() override {
    succeed_together(world_.comm(), [&] { data_.emplace(options_, layout_, groups_.mesh.point(), device_); });
    if (world_.rank() == 0)
      core::log_info("vocabulary: {} tokens in {} rows", layout_.shape.vocab, layout_.shape.padded_vocab(layout_.tp()));
  }

  TaskFacts facts() const override {
    const config::GptCost cost = config::gpt_cost(layout_.shape, layout_.tp());
    config::FlopCount forward =
        config::gpt_model(config::gpt_dims(layout_.shape, layout_.tp()), config::AttentionCount::kCausal);
    forward.flops /= 3;  // the formula counts forward and backward
    return {.num_parameters = cost.parameters,
            .model = {{"virtual_stages", layout_.pipe.num_chunks},
                      {"schedule", std::string(plan::schedule_name(layout_.pipe.kind))}},
            .forward = forward,
            .sequence_length = layout_.shape.sequence,
            .is_synthetic = options_.mock_data,
            .sample_unit = "sequences",
            .layout = fmt::format("dp={} tp={} pp={}", layout_.dp(), layout_.tp(), layout_.pp())};
  }

  core::Json model_facts() const override { return gpt_model_facts(layout_.shape); }
  comm::Comm& data_axis() override { return groups_.mesh.dp(); }

  LearningRate learning_rate(int64_t) const override {
    return [schedule = make_schedule(options_, num_steps(), layout_.batch.global_batch)](
               int64_t, int64_t samples_seen) { return schedule.lr(samples_seen); };
  }
  Snapshot find_snapshot() override { return find_gpt_snapshot(options_, world_); }

  bool has_epochs() const override { return false; }
  data::EpochSize epoch_size() override {
    const int64_t steps = steps_per_epoch(options_, num_steps());
    return {.num_batches = steps,
            .num_samples = steps * layout_.batch.global_batch,
            .origin = fmt::format("samples {}", data_->hash())};
  }

  std::unique_ptr<BatchSource> open_train(const core::Json& position) override { return data_->open_train(position); }
  core::Json join_positions(const std::vector<core::Json>& of_ranks) const override {
    return of_ranks.front();
  }                                    // they count the samples of all
  void check_evaluation() override {}  // its data were opened with the others

  Metrics evaluate(Training& training, int64_t epochs_done) override {
    const auto source = data_->open_validation(epochs_done - 1);
    if (!source) return {};
    const PipelineParts pipeline =
        gpt_pipeline_parts(*training.task, layout_, groups_, {device_, training.precision->input_type()},
                           options_.calculate_per_token_loss);
    training.task->network().set_training(false);
    LossSum total;
    for (int64_t i = 0; i < options_.eval_iters; ++i) {
      std::vector<models::Batch> batches;
      for (int64_t micro = 0; micro < layout_.batch.num_micro; ++micro) batches.push_back(source->next(*phases_));
      total += pipeline_loss(pipeline, *training.precision, batches);
    }
    training.task->network().set_training(true);
    const double loss = total.mean();
    return {{"lm loss", loss}, {"lm loss PPL", record::perplexity(loss)}};
  }

 private:
  int64_t num_steps() const { return gpt_train_steps(options_, layout_.batch.global_batch); }

  const config::GptOptions& options_;
  comm::World& world_;
  at::Device device_;
  plan::GptLayout layout_;
  comm::MeshGroups groups_;
  std::optional<GptData> data_;
  PhaseClock* phases_ = nullptr;
};

}  // namespace

config::TrainOptions gpt_run_options(const config::GptOptions& options) {
  if (options.train_samples && (!options.global_batch_size || options.decrease_batch_size_if_needed))
    throw UsageError("train: --train-samples needs --global-batch-size as it will be",
                     "give it without --decrease-batch-size-if-needed, or the length in --train-iters");
  const int64_t steps = gpt_train_steps(options, options.global_batch_size.value_or(1)),
                epoch = steps_per_epoch(options, steps);
  config::TrainOptions run = options.run;
  run.model = options.model.empty() ? config::gpt_shape_of(options).name : options.model;
  run.precision = gpt_precision(options);
  run.lr = options.lr;
  run.samples_per_rank = options.micro_batch_size;
  run.workers = options.num_workers;
  run.epochs = (steps + epoch - 1) / epoch;
  run.max_steps = steps;
  run.grad_clip_norm = options.clip_grad;
  run.save_frequency_epochs = 0;
  return run;
}

std::unique_ptr<TaskKit> make_gpt_kit(const config::GptOptions& options, comm::World& world, at::Device device) {
  return std::make_unique<GptKit>(options, world, device);
}

}  // namespace lockstep::train
