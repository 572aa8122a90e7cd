#include "tasks/contrastive/engine/contrastive_training_task.h"

#include <filesystem>
#include <optional>
#include <vector>

#include "config/pretrained_weights.h"
#include "core/error.h"
#include "core/log.h"
#include "data/text/class_names.h"
#include "data/text/clip_assets.h"
#include "optim/schedule.h"
#include "tasks/contrastive/engine/contrastive_data.h"
#include "tasks/contrastive/engine/contrastive_log.h"
#include "tasks/contrastive/engine/contrastive_training.h"
#include "tasks/contrastive/engine/evaluator.h"
#include "tasks/contrastive/engine/openclip_copy.h"
#include "tasks/contrastive/front/contrastive_dry_run_memory.h"
#include "tasks/contrastive/front/teacher.h"
#include "tasks/contrastive/front/text_ids.h"
#include "tasks/contrastive/front/zero_shot_sets.h"
#include "train/agree.h"
#include "train/memory_fit.h"

namespace lockstep::tasks {
namespace {

class ContrastiveTrainingTask final : public train::TrainingTask {
 public:
  ContrastiveTrainingTask(const ContrastiveOptions& options, comm::World& world, at::Device device,
                          const plan::BatchPlan& batch)
      : options_(options), world_(world), device_(device), batch_(batch), shape_(contrastive_shape_of(options)) {
    updated_specs(options_, shape_);  // refuses before hours of indexing
    if (const config::ClipShape* clip = shape_.clip()) check_text_ids(*clip);
    if (options_.has_teacher()) check_teacher(options_, *shape_.clip());
    if (!options_.cache_locked_features.empty()) locked_ = feature_cache_refusals(options_, *shape_.clip());
    if (world.rank() == 0)
      for (const auto& warning : shape_warnings(options_, shape_)) core::log_warning("{}", warning);
    train::check_memory_fits(planned(), world.comm(), device_);
    train::decide_on_rank_zero(world.comm(), [&] {  // before hours of indexing
      const bool may_have_checkpoint = options_.resume.has_value();
      if (!may_have_checkpoint) config::find_tower_weights(tower_weight_names(options_), shape_);
      if (options_.has_teacher()) find_teacher_weights(options_);
      if (!may_have_checkpoint && !options_.pretrained.empty())
        config::pretrained_file("--pretrained", options_.pretrained,
                                shape_.clip() != nullptr ? shape_.clip()->name : shape_.clap()->name);
      return std::string();
    });
  }

  train::Training& build_training(const train::TrainingHooks& hooks) override {
    if (hooks.adamw && world_.rank() == 0)
      for (const auto& warning : adamw_warnings(options_, *hooks.adamw)) core::log_warning("{}", warning);
    training_ = build_contrastive_training(options_, shape_, world_.comm(), device_, batch_.num_micro_batches, hooks);
    mover_.emplace(make_batch_mover(options_, shape_, device_, training_.precision->input_type()));
    if (locked_) mover_->add_keys(locked_->image.empty(), locked_->text.empty());
    training_.learning_rate = learning_rate();
    return training_;
  }

  data::EpochSize open_data() override {
    data_ = std::make_unique<ContrastiveData>(options_, shape_, world_, batch_);
    check_evaluation();
    if (data_->has_train()) epoch_ = data_->epoch_size();
    return epoch_;
  }

  train::TaskFacts facts() const override {
    const auto cost = config::contrastive_cost(shape_);
    const std::string other = shape_.modality();
    const bool is_locked = options_.lock_image || options_.lock_text;
    return {.num_parameters = cost.parameters,
            .model = {{other + "_forward_flops", cost.image_or_audio_forward_flops},
                      {"text_forward_flops", cost.text_forward_flops}},
            .identity = {{"opt", options_.opt},
                         {"lock_image", options_.lock_image},
                         {"lock_image_unlocked_groups", options_.lock_image_unlocked_groups},
                         {"lock_text", options_.lock_text},
                         {"lock_text_unlocked_layers", options_.lock_text_unlocked_layers}},
            .forward = is_locked ? config::trained_forward(*shape_.clip(), options_.tower_locks()) : cost.forward,
            .processed = shape_.clip() != nullptr && !is_locked ? config::clip_forward_trained(*shape_.clip())
                                                                : config::FlopCount{},
            .sequence_length = shape_.context_length(),
            .is_synthetic = options_.has_made_up_data(),
            .layout = fmt::format("dp={}", world_.size())};
  }

  std::unique_ptr<train::BatchSource> open_train(const core::Json& position) override {
    return train::make_loader_batches(data_->open_train(position), *mover_);
  }
  std::unique_ptr<train::LogFormat> log_format() const override {
    return make_contrastive_log_format(options_.train_loss_ema_samples);
  }

  train::Metrics evaluate(const train::EvaluationTime& when) override {
    const auto is_due = [&](int64_t frequency) {
      return frequency > 0 && (when.epochs_done % frequency == 0 || when.is_last);
    };
    train::Metrics metrics;
    const auto add = [&](train::Metrics more) {
      metrics.insert(metrics.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    };
    if (is_due(options_.zeroshot_frequency_epochs))
      for (const auto& set : zero_shot_sets_) add(zero_shot(set));
    if (is_due(options_.val_frequency_epochs) && !options_.val_data.empty()) add(validate());
    core::end_progress();
    return metrics;
  }

 private:
  train::PlannedMemory planned() const {
    const MemoryPlan plan = planned_memory(options_, shape_, batch_, world_.size(),
                                           RankMemory{.bytes = 0, .source = "", .is_gpu = !device_.is_cpu()});
    return {.model = options_.model,
            .bytes_of_ranks = std::vector<double>(static_cast<size_t>(world_.size()), plan.total()),
            .parts_of_fullest = plan.parts(),
            .hint =
                "use a smaller --batch-size (with --accum-freq the global batch stays), --grad-checkpointing, "
                "--precision amp_bf16, or more ranks with --grad-sync zero1"};
  }

  train::LearningRate learning_rate() const {
    const optim::Schedule schedule{.kind = optim::parse_schedule(options_.lr_scheduler),
                                   .base_lr = update_numbers(options_, /*is_pretrained=*/false).lr,
                                   .warmup_steps = options_.warmup_steps,
                                   .total_steps = epoch_.num_batches * options_.epochs,
                                   .cooldown_steps = options_.epochs_cooldown.value_or(0) * epoch_.num_batches,
                                   .cooldown_power = options_.lr_cooldown_power,
                                   .cooldown_end_lr = options_.lr_cooldown_end,
                                   .is_skipped = options_.skip_scheduler};
    return [schedule](int64_t step, int64_t) { return schedule.lr(step); };
  }

  void check_evaluation() {
    const auto check = [&] {
      if (options_.zeroshot_frequency_epochs > 0) read_prompts();
      if (world_.rank() != 0) return;
      if (!options_.val_data.empty() && options_.val_frequency_epochs > 0) {
        data_->refuse_missing(options_.val_data);
        data_->open_validation()->next();
      }
      for (const auto& set : zero_shot_sets_) {
        check_classes(set);
        data_->refuse_missing(set.spec);
        data_->open_labelled(set.spec, set.has_numbered_folders)->next();
      }
    };
    train::succeed_together(world_.comm(), check,
                            [&] { world_.wait_for_all("rank 0 reads from the sets to evaluate"); });
  }

  EmbeddingEngine make_engine() const {
    return EmbeddingEngine(*training_.towers, *mover_, *training_.precision, Weights::kChanging);
  }

  /// "validation: 512 of 5000 samples", by the first rank. `goal` 0: not known.
  std::function<void(int64_t)> progress_of(const std::string& what, const char* unit, int64_t goal) {
    const int64_t num_ranks = world_.comm().size();
    const bool is_first_rank = world_.rank() == 0;
    return [=, tell = core::progress_teller()](int64_t mine) {
      const std::string all = goal > 0 ? fmt::format(" of {}", goal) : "";
      if (is_first_rank) tell(fmt::format("{}: {}{} {}", what, mine * num_ranks, all, unit));
    };
  }

  train::Metrics validate() {
    const int64_t goal = options_.val_num_samples.value_or(0);
    const auto loader = data_->open_validation();
    const EmbeddingEngine engine = make_engine();
    train::Metrics metrics = validate_pairs({engine, world_.comm(), progress_of("validation", "samples", goal)},
                                            shape_.modality(), *loader, batch_.micro_batch_size);
    for (const auto& [name, value] : metrics)
      if (name == "num_samples" && goal > 0 && static_cast<int64_t>(value) != goal && world_.rank() == 0)
        core::log_warning("data: --val-data holds {} samples, --val-num-samples says {}", static_cast<int64_t>(value),
                          goal);
    return metrics;
  }

  train::Metrics zero_shot(const ZeroShotSet& set) {
    const auto num_prompts = static_cast<int64_t>(set.class_names.size() * templates_.size());
    const EmbeddingEngine engine = make_engine();
    const auto class_KE = zero_shot_classifier({engine, world_.comm(), progress_of(set.prefix, "prompts", num_prompts)},
                                               data_->text_encoder(), shape_.context_length(), set.class_names,
                                               templates_, batch_.micro_batch_size);
    const auto loader = data_->open_labelled(set.spec, set.has_numbered_folders);
    return zero_shot_accuracy(
        set.prefix, encode_all({engine, world_.comm(), progress_of(set.prefix, "samples", 0)}, *loader), class_KE);
  }

  void read_prompts() {
    if (!options_.has_zero_shot()) return;
    zero_shot_sets_ = zero_shot_sets(options_);
    if (options_.templates.empty() && shape_.clap() != nullptr)
      templates_ = {kSoundTemplate};
    else
      templates_ = data::read_templates(options_.templates.empty() ? data::find_clip_assets().openai_templates()
                                                                   : std::filesystem::path(options_.templates));
  }

  const ContrastiveOptions& options_;
  comm::World& world_;
  at::Device device_;
  plan::BatchPlan batch_;
  config::ContrastiveShape shape_;
  std::optional<config::FeatureCacheRefusals> locked_;  // with --cache-locked-features
  ContrastiveTraining training_;
  std::optional<train::BatchMover> mover_;
  std::unique_ptr<ContrastiveData> data_;
  data::EpochSize epoch_;
  std::vector<ZeroShotSet> zero_shot_sets_;
  std::vector<std::string> templates_;
};

}  // namespace

train::TrainRequest contrastive_train_request(const FrontTask& task, const core::OptionSet& set) {
  const auto& options = options_as<ContrastiveOptions>(task);
  const bool has_copies = options.save_format == "openclip";
  return {
      .options = options,
      .set = set,
      .facts = contrastive_run_facts(options),
      .plan_batch = [&](int64_t num_ranks) { return task.batch_plan(set, num_ranks); },
      .on_checkpoint =
          has_copies
              ? [&options](
                    const std::filesystem::path& folder,
                    const checkpoint::CheckpointManifest& manifest) { save_openclip_copy(options, folder, manifest); }
              : checkpoint::SavedFunction(),
      .on_removal = has_copies ? remove_openclip_copy : checkpoint::SavedFunction(),
      .make_task = [&options](comm::World& world, at::Device device,
                              const plan::BatchPlan& batch) -> std::unique_ptr<train::TrainingTask> {
        return std::make_unique<ContrastiveTrainingTask>(options, world, device, batch);
      }};
}

}  // namespace lockstep::tasks
