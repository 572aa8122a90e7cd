#include "train/contrastive_kit.h"

#include <optional>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "data/text/class_names.h"
#include "data/text/clip_assets.h"
#include "models/contrastive_task.h"
#include "optim/schedule.h"
#include "train/agree.h"
#include "train/contrastive_data.h"
#include "train/contrastive_training.h"
#include "train/evaluator.h"

namespace lockstep::train {
namespace {

/// Labelled pictures or sounds of zero-shot evaluation; their metrics begin with `prefix`.
struct ZeroShotSet {
  std::string prefix, spec;
  std::vector<std::string> class_names;
};

class ContrastiveKit final : public TaskKit {
 public:
  ContrastiveKit(const config::TrainOptions& options, comm::World& world, at::Device device,
                 const plan::BatchPlan& batch)
      : options_(options), world_(world), device_(device), batch_(batch),
        shape_(config::resolve_contrastive_shape(options)) {
    if (world.rank() == 0)
      for (const auto& warning : config::shape_warnings(options_, shape_)) core::log_warning("{}", warning);
  }

  Training build_training(const TrainingHooks& hooks) override {
    auto training = build_contrastive_training(options_, shape_, world_.comm(), device_, batch_.num_micro, hooks);
    mover_.emplace(make_batch_mover(options_, shape_, device_, training.precision->input_type()));
    return training;
  }

  void open_data() override { data_ = std::make_unique<ContrastiveData>(options_, shape_, world_, batch_); }

  TaskFacts facts() const override {
    const auto cost = config::contrastive_cost(shape_);
    const std::string other = shape_.other_kind();
    return {.num_parameters = cost.parameters,
            .model = {{other + "_forward_flops", cost.other_forward_flops},
                      {"text_forward_flops", cost.text_forward_flops}},
            .forward = cost.forward,
            .processed = shape_.clip() != nullptr ? config::clip_forward_trained(*shape_.clip()) : config::FlopCount{},
            .sequence_length = shape_.context_length(),
            .is_synthetic = options_.dataset_type == "synthetic",
            .layout = fmt::format("dp={}", world_.size())};
  }

  comm::Comm& data_axis() override { return world_.comm(); }
  LearningRate learning_rate(int64_t total_steps) const override {
    const int64_t steps_per_epoch = total_steps / options_.epochs;
    const optim::Schedule schedule{.kind = optim::parse_schedule(options_.lr_scheduler),
                                   .base_lr = *options_.lr,
                                   .warmup_steps = options_.warmup_steps,
                                   .total_steps = total_steps,
                                   .cooldown_steps = options_.epochs_cooldown.value_or(0) * steps_per_epoch,
                                   .cooldown_power = options_.lr_cooldown_power,
                                   .cooldown_end_lr = options_.lr_cooldown_end,
                                   .is_skipped = options_.skip_scheduler};
    return [schedule](int64_t step, int64_t) { return schedule.lr(step); };
  }
  data::EpochSize epoch_size() override { return data_->has_train() ? data_->epoch_size() : data::EpochSize{}; }
  std::unique_ptr<BatchSource> open_train(const core::Json& position) override {
    return make_loader_batches(data_->open_train(position), *mover_);
  }
  core::Json join_positions(const std::vector<core::Json>& of_ranks) const override {
    return data::merge_positions(of_ranks);
  }

  void check_evaluation() override {
    succeed_together(world_.comm(), [&] {
      if (options_.zeroshot_frequency_epochs > 0) read_prompts();
      if (world_.rank() != 0) return;
      if (!options_.val_data.empty() && options_.val_frequency_epochs > 0) data_->open_validation()->next();
      for (const auto& set : zero_shot_sets_) data_->open_labelled(set.spec)->next();
    });
  }

  Metrics evaluate(Training& training, int64_t epochs_done) override {
    const auto is_due = [&](int64_t frequency) {
      return frequency > 0 && (epochs_done % frequency == 0 || epochs_done == options_.epochs);
    };
    Metrics metrics;
    const auto add = [&](Metrics more) {
      metrics.insert(metrics.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    };
    if (is_due(options_.zeroshot_frequency_epochs))
      for (const auto& set : zero_shot_sets_) add(zero_shot(training, set));
    if (is_due(options_.val_frequency_epochs) && !options_.val_data.empty()) add(validate(training));
    core::end_progress();
    return metrics;
  }

 private:
  EncoderContext encoder(Training& training, std::function<void(int64_t)> on_progress = {}) {
    return {static_cast<models::ContrastiveTask&>(*training.task).towers(), world_.comm(), *mover_, *training.precision,
            std::move(on_progress)};
  }

  Metrics validate(Training& training) {
    const int64_t goal = options_.val_num_samples.value_or(0), num_ranks = world_.comm().size();
    const bool is_first_rank = world_.rank() == 0;
    const auto show = [&](int64_t mine) {
      const std::string all = goal > 0 ? fmt::format(" of {}", goal) : "";
      if (is_first_rank) core::show_progress(fmt::format("validation: {}{} samples", mine * num_ranks, all));
    };
    const auto loader = data_->open_validation();
    Metrics metrics = validate_pairs(encoder(training, show), shape_.other_kind(), *loader, batch_.samples_per_micro);
    for (const auto& [name, value] : metrics)
      if (name == "num_samples" && goal > 0 && static_cast<int64_t>(value) != goal && is_first_rank)
        core::log_warning("data: --val-data holds {} samples, --val-num-samples says {}", static_cast<int64_t>(value),
                          goal);
    return metrics;
  }

  Metrics zero_shot(Training& training, const ZeroShotSet& set) {
    const auto class_KE = zero_shot_classifier(encoder(training), data_->text_encoder(), shape_.context_length(),
                                               set.class_names, templates_, batch_.samples_per_micro);
    const auto loader = data_->open_labelled(set.spec);
    return zero_shot_accuracy(set.prefix, encode_all(encoder(training), *loader), class_KE);
  }

  /// With both sets given --classnames are those of --zeroshot-data.
  void read_prompts() {
    if (options_.imagenet_val.empty() && options_.zeroshot_data.empty()) return;
    const bool has_own_names = !options_.classnames.empty() && options_.zeroshot_data.empty();
    if (!options_.imagenet_val.empty())
      zero_shot_sets_.push_back(
          {"imagenet-zeroshot-val", options_.imagenet_val,
           data::read_class_names(has_own_names ? std::filesystem::path(options_.classnames)
                                                : data::find_clip_assets().imagenet_class_names())});
    if (!options_.zeroshot_data.empty())
      zero_shot_sets_.push_back({"zeroshot", options_.zeroshot_data, data::read_class_names(options_.classnames)});
    if (options_.templates.empty() && shape_.clap() != nullptr)
      templates_ = {kSoundTemplate};
    else
      templates_ = data::read_templates(options_.templates.empty() ? data::find_clip_assets().openai_templates()
                                                                   : std::filesystem::path(options_.templates));
  }

  const config::TrainOptions& options_;
  comm::World& world_;
  at::Device device_;
  plan::BatchPlan batch_;
  config::ContrastiveShape shape_;
  std::optional<BatchMover> mover_;
  std::unique_ptr<ContrastiveData> data_;
  std::vector<ZeroShotSet> zero_shot_sets_;
  std::vector<std::string> templates_;
};

}  // namespace

std::unique_ptr<TaskKit> make_contrastive_kit(const config::TrainOptions& options, comm::World& world,
                                              at::Device device, const plan::BatchPlan& batch) {
  return std::make_unique<ContrastiveKit>(options, world, device, batch);
}

}  // namespace lockstep::train
