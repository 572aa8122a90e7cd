#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <map>

#include "bench/step_subject.h"
#include "config/optimizers.h"
#include "core/error.h"
#include "models/weights.h"
#include "tasks/contrastive/engine/contrastive_training.h"
#include "tasks/contrastive/front/memory_plan.h"

namespace lockstep::bench {
namespace {

/// Where the model's text tower takes its ids from.
at::Device device_of_texts(const config::ContrastiveShape& shape, at::Device device) {
  return shape.packs_texts() ? at::Device(at::kCPU) : device;
}

/// Random pictures or sounds, and texts that use every position.
models::Batch random_pairs(const config::ContrastiveShape& shape, const train::Precision& precision, at::Device device,
                           int64_t samples, uint64_t seed) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const auto ids = [&](int64_t end, int64_t tokens) {
    return at::randint(0, end, {samples, tokens}, generator, at::TensorOptions().dtype(at::kLong));
  };
  models::Batch batch;
  batch.num_samples = samples;
  if (const auto* clip = shape.clip()) {
    const int64_t pixels = clip->vision.image_size;
    batch.image_BCYX = at::randn({samples, 3, pixels, pixels}, generator, at::TensorOptions().dtype(at::kFloat))
                           .to(device, precision.input_type())
                           .contiguous(at::MemoryFormat::ChannelsLast);
    const int64_t end_of_text = clip->text.vocab_size - 1;
    at::Tensor text_BT = ids(end_of_text, clip->text.context_length);
    text_BT.select(1, -1).fill_(end_of_text);
    batch.text_BT = text_BT.to(device_of_texts(shape, device));
  } else {
    const auto& clap = *shape.clap();
    batch.audio_BS = at::rand({samples, clap.audio.clip_samples}, generator, at::TensorOptions().dtype(at::kFloat))
                         .mul_(2)
                         .sub_(1)
                         .to(device);
    const at::Tensor text_BT = ids(clap.text.vocab_size - 1, clap.text.context_length);
    batch.text_BT = text_BT + text_BT.ge(clap.text.pad_id);  // any id but the padding; packed on the host
  }
  return batch;
}

/// Tensors image.N [B,C,Y,X] or audio.N [B,S], and text.N [B,T], of a safetensors file.
std::vector<models::Batch> read_batches(const std::string& path, const config::ContrastiveShape& shape,
                                        const train::Precision& precision, at::Device device) {
  const auto file = models::read_weights(path);
  const std::map<std::string, at::Tensor> tensors(file.tensors.begin(), file.tensors.end());
  std::vector<models::Batch> batches;
  for (size_t index = 0;; ++index) {
    const auto image = tensors.find(fmt::format("image.{}", index)),
               audio = tensors.find(fmt::format("audio.{}", index)), text = tensors.find(fmt::format("text.{}", index));
    if ((image == tensors.end()) == (audio == tensors.end()) || text == tensors.end()) break;
    models::Batch batch;
    if (image != tensors.end())
      batch.image_BCYX = image->second.to(device, precision.input_type()).contiguous(at::MemoryFormat::ChannelsLast);
    if (audio != tensors.end()) batch.audio_BS = audio->second.to(device, at::kFloat);
    batch.text_BT = text->second.to(device_of_texts(shape, device), at::kLong);
    batch.num_samples = batch.text_BT.size(0);
    batches.push_back(batch);
  }
  if (batches.empty())
    throw DataError(fmt::format("bench: '{}' holds no text.0 with either image.0 or audio.0", path),
                    "see --batches in the help");
  const auto other = [](const models::Batch& batch) {
    return batch.image_BCYX.defined() ? batch.image_BCYX : batch.audio_BS;
  };
  for (const auto& batch : batches)
    if (batch.num_samples != batches[0].num_samples || other(batch).size(0) != batch.num_samples)
      throw DataError(fmt::format("bench: the batches in '{}' have {} and {} samples", path, batches[0].num_samples,
                                  batch.num_samples),
                      "all of them, pictures or sounds and texts, must have one size");
  return batches;
}

class ContrastiveSteps final : public StepSubject {
 public:
  explicit ContrastiveSteps(const BenchContext& context)
      : context_(context), shape_(tasks::contrastive_shape_of(options())) {}

  double num_parameters() const override { return static_cast<double>(config::contrastive_cost(shape_).parameters); }
  config::FlopCount forward() const override { return config::contrastive_cost(shape_).forward; }

  std::vector<std::pair<std::string, double>> memory_parts(const plan::BatchPlan& plan) const override {
    const auto& o = options();
    const bool is_zero1 = tasks::grad_sync_kind(o, plan.num_data_ranks) == config::GradSyncKind::kZero1;
    return tasks::plan_contrastive_memory(shape_, {.precision = o.precision,
                                                   .num_moments = config::optimizer_info(o.opt).num_moments,
                                                   .optimizer_shards = is_zero1 ? plan.num_data_ranks : 1,
                                                   .has_fp32_gradients = o.fp32_gradients,
                                                   .micro_batch_size = plan.micro_batch_size,
                                                   .global_batch = plan.global_batch,
                                                   .grad_checkpointing = o.grad_checkpointing,
                                                   .keeps_attention = context_.device.is_cpu()})
        .parts();
  }

  std::vector<models::Batch> given_batches() const override {
    const std::string& path = context_.options.batches;
    if (path.empty()) return {};
    return read_batches(path, shape_, train::Precision(options().precision, context_.device.type()), context_.device);
  }

  models::Batch make_batch(int64_t num_samples, uint64_t seed) const override {
    return random_pairs(shape_, *training_->precision, context_.device, num_samples, seed);
  }

  train::Training& build(const plan::BatchPlan& plan, nn::WorkRecorder* recorder) override {
    return training_.emplace(tasks::build_contrastive_training(options(), shape_, context_.world, context_.device,
                                                               plan.num_micro_batches, {.recorder = recorder}));
  }

 private:
  const tasks::ContrastiveOptions& options() const { return options_; }

  /// Of made-up batches it does not matter which weights a tower of Hugging Face begins with; they need not be here.
  static tasks::ContrastiveOptions without_text_weights(tasks::ContrastiveOptions options) {
    options.pretrained_text = "none";
    return options;
  }

  const BenchContext& context_;
  const tasks::ContrastiveOptions options_ = without_text_weights(context_.options.train);
  config::ContrastiveShape shape_;
  std::optional<tasks::ContrastiveTraining> training_;
};

}  // namespace

std::unique_ptr<StepSubject> make_contrastive_steps(const BenchContext& context) {
  return std::make_unique<ContrastiveSteps>(context);
}

}  // namespace lockstep::bench
