#include "tasks/imagenet/engine/imagenet_training_task.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "core/counted.h"
#include "core/log.h"
#include "core/print.h"
#include "core/strings.h"
#include "data/train_stream.h"
#include "tasks/imagenet/engine/imagenet_data.h"
#include "tasks/imagenet/engine/imagenet_evaluation.h"
#include "tasks/imagenet/engine/imagenet_log.h"
#include "tasks/imagenet/engine/imagenet_training.h"

namespace lockstep::tasks {
namespace {

class ImagenetTrainingTask final : public train::TrainingTask {
 public:
  ImagenetTrainingTask(const ImagenetOptions& options, comm::World& world, at::Device device,
                       const plan::BatchPlan& batch)
      : options_(options), world_(world), device_(device), batch_(batch) {}

  train::TaskFacts facts() const override {
    const config::ClassifierShape shape = classifier_of(options_);
    int64_t num_parameters = 0;
    for (const config::ParamSpec& spec : classifier_params_of(options_))
      num_parameters += spec.is_buffer ? 0 : spec.numel();
    return {.num_parameters = num_parameters,
            .model = {{"num_classes", shape.num_classes},
                      {"image_pixels", shape.image_pixels},
                      {"class_names", class_names(shape.num_classes)}},
            .identity = {{"arch", shape.name}, {"opt", options_.opt}},
            .forward = config::classifier_forward(shape),
            .is_convolutional = shape.is_resnet(),
            .is_synthetic = options_.has_made_up_data(),
            .sample_unit = "images",
            .layout = fmt::format("dp={}", world_.size())};
  }

  data::EpochSize open_data() override {
    data_ = std::make_unique<ImagenetData>(options_, world_, batch_);
    if (data_->has_train()) epoch_ = data_->epoch_size();
    return epoch_;
  }

  train::Training& build_training(const train::TrainingHooks& hooks) override {
    if (world_.rank() == 0) core::log_info("=> creating model '{}'", options_.model);
    training_ = build_imagenet_training(options_, world_.comm(), device_, hooks);
    const auto transform = make_imagenet_transform(options_, /*is_train=*/false, options_.evaluation_pixels());
    mover_.emplace(device_, training_.precision->input_type(), transform.mean, transform.std);
    if (options_.has_average) keep_averages(training_, options_, batch_.global_batch, epoch_.num_batches);
    training_.learning_rate = imagenet_learning_rate(options_, batch_.global_batch, epoch_.num_batches);
    return training_;
  }

  std::unique_ptr<train::BatchSource> open_train(const core::Json& position) override {
    return train::make_loader_batches(data_->open_train(position), *mover_);
  }

  train::Metrics evaluate(const train::EvaluationTime& when) override {
    const int64_t frequency = options_.val_frequency_epochs;
    const bool is_due = frequency > 0 && when.epochs_done % frequency == 0;
    if (!data_->has_validation() || (!is_due && !when.is_last)) return {};
    train::Metrics metrics = evaluate_once(TellBadSamples::kYes);
    if (training_.averages != nullptr) {
      training_.swap_averages();
      for (const auto& [name, value] : evaluate_once(TellBadSamples::kNo))  // the same pictures
        if (!core::starts_with(name, "num_")) metrics.emplace_back("ema_" + name, value);
      training_.swap_averages();
    }
    if (options_.is_evaluate && world_.rank() == 0) core::print("{}", evaluation_table(metrics));
    return metrics;
  }

  std::unique_ptr<train::LogFormat> log_format() const override { return make_imagenet_log_format(); }

 private:
  /// Of the record, which the first rank writes, so that `infer classify` knows them; none where the data tell none.
  std::vector<std::string> class_names(int64_t num_classes) const {
    if (world_.rank() != 0 || options_.has_made_up_data() || options_.train_data.empty()) return {};
    auto names = data::class_names_of(options_.dataset_type, options_.train_data);
    return std::ssize(names) == num_classes ? names : std::vector<std::string>();
  }

  train::Metrics evaluate_once(TellBadSamples tells) {
    const auto loader = data_->open_validation(tells);
    train::Metrics metrics = evaluate_classifier(context(), *loader);
    core::end_progress();
    return metrics;
  }

  ClassifierContext context() {
    const int64_t num_ranks = world_.size();
    const bool is_first_rank = world_.rank() == 0;
    return {.network = *training_.classifier,
            .data_axis = world_.comm(),
            .mover = *mover_,
            .precision = *training_.precision,
            .channels_last = options_.channels_last,
            .on_progress = [=](int64_t mine) {
              if (is_first_rank)
                core::show_progress(fmt::format("validation: {}", core::counted(mine * num_ranks, "image")));
            }};
  }

  const ImagenetOptions& options_;
  comm::World& world_;
  at::Device device_;
  plan::BatchPlan batch_;
  ImagenetTraining training_;
  std::optional<train::BatchMover> mover_;
  std::unique_ptr<ImagenetData> data_;
  data::EpochSize epoch_;
};

}  // namespace

train::TrainRequest imagenet_train_request(const FrontTask& task, const core::OptionSet& set) {
  const auto& options = options_as<ImagenetOptions>(task);
  return {.options = options,
          .set = set,
          .facts = imagenet_run_facts(options),
          .plan_batch = [&](int64_t num_ranks) { return task.batch_plan(set, num_ranks); },
          .make_task = [&options](comm::World& world, at::Device device,
                                  const plan::BatchPlan& batch) -> std::unique_ptr<train::TrainingTask> {
            return std::make_unique<ImagenetTrainingTask>(options, world, device, batch);
          }};
}

}  // namespace lockstep::tasks
