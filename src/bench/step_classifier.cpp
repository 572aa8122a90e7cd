#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include "bench/step_subject.h"
#include "config/imagenet_models.h"
#include "tasks/imagenet/engine/imagenet_training.h"
#include "tasks/imagenet/front/imagenet_dry_run.h"

namespace lockstep::bench {
namespace {

class ClassifierSteps final : public StepSubject {
 public:
  explicit ClassifierSteps(const BenchContext& context) : context_(context), options_(options_of(context)) {}

  double num_parameters() const override {
    double count = 0;
    for (const config::ParamSpec& spec : tasks::classifier_params_of(options_))
      count += spec.is_buffer ? 0 : static_cast<double>(spec.numel());
    return count;
  }

  config::FlopCount forward() const override { return config::classifier_forward(tasks::classifier_of(options_)); }

  std::vector<std::pair<std::string, double>> memory_parts(const plan::BatchPlan& plan) const override {
    return tasks::plan_imagenet_memory(options_, plan, plan.num_data_ranks).parts();
  }

  models::Batch make_batch(int64_t num_samples, uint64_t seed) const override {
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    const int64_t pixels = options_.image_pixels;
    models::Batch batch;
    batch.num_samples = num_samples;
    batch.image_BCYX =
        at::randn({num_samples, 3, pixels, pixels}, generator, at::TensorOptions().dtype(at::kFloat))
            .to(context_.device, training_->precision->input_type())
            .contiguous(options_.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
    batch.label_B = at::randint(0, tasks::classifier_of(options_).num_classes, {num_samples}, generator,
                                at::TensorOptions().dtype(at::kLong))
                        .to(context_.device);
    return batch;
  }

  train::Training& build(const plan::BatchPlan&, nn::WorkRecorder* recorder) override {
    return training_.emplace(
        tasks::build_imagenet_training(options_, context_.world, context_.device, {.recorder = recorder}));
  }

 private:
  /// What `train imagenet` would be given.
  static tasks::ImagenetOptions options_of(const BenchContext& context) {
    const tasks::ContrastiveOptions& bench = context.options.train;
    std::vector<std::string> flags = {"--dummy"};
    const auto add = [&](const char* flag, const auto& value) { flags.push_back(fmt::format("--{}={}", flag, value)); };
    add("arch", bench.model);
    add("device", context.device.is_cpu() ? "cpu" : "cuda");
    add("precision", bench.precision);
    add("seed", bench.seed);
    add("wd", bench.wd);
    add("grad-sync", bench.grad_sync);
    add("bucket-mb", bench.bucket_mib);
    add("lr", *bench.lr);
    if (bench.grad_clip_norm) add("clip-grad-norm", *bench.grad_clip_norm);
    if (!bench.force_image_size.empty()) add("train-crop-size", bench.force_image_size.front());
    if (!bench.pretrained.empty()) add("pretrained", bench.pretrained);
    if (bench.use_bn_sync) flags.emplace_back("--sync-bn");
    tasks::ImagenetOptions options;
    core::OptionSet set = tasks::declare_imagenet_options(options);
    set.parse(flags);
    tasks::fill_imagenet_defaults(options, set);
    return options;
  }

  const BenchContext& context_;
  tasks::ImagenetOptions options_;
  std::optional<tasks::ImagenetTraining> training_;
};

}  // namespace

std::unique_ptr<StepSubject> make_classifier_steps(const BenchContext& context) {
  return std::make_unique<ClassifierSteps>(context);
}

}  // namespace lockstep::bench
