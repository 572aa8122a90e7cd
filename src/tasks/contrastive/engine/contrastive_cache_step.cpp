#include "tasks/contrastive/engine/contrastive_cache_step.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/error.h"
#include "core/rng.h"

namespace lockstep::tasks {
namespace {

using models::Batch;
using models::Outputs;

/// Features of one micro-batch, or of all joined.
struct Features {
  at::Tensor image_BE, text_BE, teacher_image_BE, teacher_text_BE;
  at::Tensor caption_loss_sum, num_caption_tokens;
};

/// A copy that autograd sees as an input where `like` has a gradient to receive.
at::Tensor leaf_of(const at::Tensor& value, const at::Tensor& like) {
  if (!value.defined()) return value;
  return value.detach().set_requires_grad(like.requires_grad());
}

/// Outputs that carry a gradient, and that gradient.
class Cotangents {
 public:
  void add(const at::Tensor& output, const at::Tensor& gradient) {
    if (!output.defined() || !output.requires_grad() || !gradient.defined()) return;
    outputs_.push_back(output);
    gradients_.push_back(gradient);
  }
  void backward() const {
    if (!outputs_.empty()) torch::autograd::backward(outputs_, gradients_);
  }

 private:
  std::vector<at::Tensor> outputs_, gradients_;
};

class ContrastiveCacheStep final : public train::StepRunner {
 public:
  explicit ContrastiveCacheStep(const train::StepRunnerParts& parts) : parts_(parts) {}

  train::StepOutcome run(std::span<Batch> micro_batches, uint64_t step_key) override {
    LOCKSTEP_CHECK(!micro_batches.empty(), "a step without micro-batches");
    train::StepOutcome outcome;
    for (size_t micro = 0; micro < micro_batches.size(); ++micro) {
      auto& context = micro_batches[micro].context;
      context.random_key = core::stream_key({step_key, static_cast<uint64_t>(parts_.data_rank), micro});
      outcome.num_samples += micro_batches[micro].num_samples;
    }
    parts_.sync.begin_step();
    parts_.mark(train::Phase::kOther);
    const auto cached = cache_features(micro_batches.subspan(1));
    parts_.sync.begin_micro(micro_batches.size() == 1);
    auto live = forward(micro_batches[0], true);
    const Outputs joined = join(live, cached);
    parts_.mark(train::Phase::kForward);
    differentiate_loss(joined, outcome);
    carry_back(live, joined, micro_batches);
    parts_.mark(train::Phase::kBackward);
    parts_.sync.finish();
    parts_.mark(train::Phase::kExposedComm);
    return outcome;
  }

 private:
  Outputs forward(Batch& batch, bool updates_statistics, bool is_rerun = false) const {
    RECORD_USER_SCOPE("forward");
    batch.context.updates_statistics = updates_statistics;
    batch.context.is_rerun = is_rerun;
    const auto autocast = parts_.precision.autocast();
    return parts_.task.forward(batch);
  }

  std::vector<Features> cache_features(std::span<Batch> micro_batches) const {
    const c10::NoGradGuard no_grad;
    std::vector<Features> cached;
    for (Batch& batch : micro_batches) {
      const auto outputs = forward(batch, false);
      cached.push_back({outputs.image_BE, outputs.text_BE, outputs.teacher_image_BE, outputs.teacher_text_BE,
                        outputs.loss_sum, outputs.weight_sum});
    }
    return cached;
  }

  /// All micro-batches in order as inputs of the loss: leaves, so that backward stops at the features.
  static Outputs join(const Outputs& live, const std::vector<Features>& cached) {
    std::vector<at::Tensor> images{live.image_BE.detach()}, texts{live.text_BE.detach()};
    std::vector<at::Tensor> teacher_images{live.teacher_image_BE}, teacher_texts{live.teacher_text_BE};
    for (const auto& features : cached) {
      images.push_back(features.image_BE);
      texts.push_back(features.text_BE);
      teacher_images.push_back(features.teacher_image_BE);
      teacher_texts.push_back(features.teacher_text_BE);
    }
    Outputs joined;
    if (live.teacher_image_BE.defined()) {
      joined.teacher_image_BE = at::cat(teacher_images);
      joined.teacher_text_BE = at::cat(teacher_texts);
    }
    if (live.loss_sum.defined()) {
      at::Tensor loss_sum = live.loss_sum.detach(), num_tokens = live.weight_sum;
      for (const auto& features : cached) {
        loss_sum = loss_sum + features.caption_loss_sum;
        num_tokens = num_tokens + features.num_caption_tokens;
      }
      joined.loss_sum = leaf_of(loss_sum, live.loss_sum);
      joined.weight_sum = num_tokens;
    }
    joined.image_BE = leaf_of(at::cat(images), live.image_BE);
    joined.text_BE = leaf_of(at::cat(texts), live.text_BE);
    joined.logit_scale = leaf_of(live.logit_scale, live.logit_scale);
    joined.logit_bias = leaf_of(live.logit_bias, live.logit_bias);
    return joined;
  }

  void differentiate_loss(const Outputs& joined, train::StepOutcome& outcome) const {
    RECORD_USER_SCOPE("loss");
    models::LossReport report;
    {
      const auto autocast = parts_.precision.autocast();
      report = parts_.task.loss(joined);
    }
    if (report.loss.requires_grad())
      (parts_.scaler != nullptr ? parts_.scaler->scaled(report.loss) : report.loss).backward();
    at::Tensor total;
    for (const auto& [name, value] : report.parts) {
      total = total.defined() ? total + value : value;
      outcome.scalars.emplace_back(name, value);
    }
    outcome.scalars.emplace_back("loss", total.defined() ? total : report.loss.detach());
    for (const auto& [name, value] : report.scalars) outcome.scalars.emplace_back(name, value.clone());
  }

  /// Micro-batch 0 still has its graph; the others are run again. The scalars ride on the last backward pass: each
  /// parameter must receive its gradient within one pass of the micro-batch that communicates.
  void carry_back(Outputs& live, const Outputs& joined, std::span<Batch> micro_batches) const {
    int64_t first_row = 0;
    for (size_t micro = 0; micro < micro_batches.size(); ++micro) {
      const bool is_last = micro + 1 == micro_batches.size();
      if (micro > 0) {
        parts_.sync.begin_micro(is_last);
        parts_.mark(train::Phase::kBackward);
        live = forward(micro_batches[micro], true, /*is_rerun=*/true);
        parts_.mark(train::Phase::kForward);
      }
      const int64_t num_rows = live.image_BE.size(0);
      const auto rows_of = [&](const at::Tensor& gradient_BE) {
        return gradient_BE.defined() ? gradient_BE.narrow(0, first_row, num_rows) : gradient_BE;
      };
      Cotangents cotangents;
      cotangents.add(live.image_BE, rows_of(joined.image_BE.grad()));
      cotangents.add(live.text_BE, rows_of(joined.text_BE.grad()));
      if (joined.loss_sum.defined()) cotangents.add(live.loss_sum, joined.loss_sum.grad());
      if (is_last && joined.logit_scale.defined()) cotangents.add(live.logit_scale, joined.logit_scale.grad());
      if (is_last && joined.logit_bias.defined()) cotangents.add(live.logit_bias, joined.logit_bias.grad());
      {
        RECORD_USER_SCOPE("backward");
        cotangents.backward();
      }
      live = {};  // its graph goes before the next one grows
      first_row += num_rows;
    }
  }

  train::StepRunnerParts parts_;
};

}  // namespace

std::unique_ptr<train::StepRunner> make_contrastive_cache_step(const train::StepRunnerParts& parts) {
  return std::make_unique<ContrastiveCacheStep>(parts);
}

}  // namespace lockstep::tasks
