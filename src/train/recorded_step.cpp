#include "train/recorded_step.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/log.h"
#include "core/strings.h"

namespace lockstep::train {
namespace {

constexpr int64_t kPlainSteps = 2;   // of a form, before it is rehearsed
constexpr size_t kMostForms = 4;     // the first ones
constexpr size_t kMostBatches = 16;  // of a step: a recording has kernels for each

std::array<at::Tensor*, 8> tensors_of(models::Batch& batch) {
  return {&batch.image_BCYX, &batch.audio_BS,       &batch.text_BT,     &batch.label_B,
          &batch.target_BT,  &batch.loss_weight_BT, &batch.position_BT, &batch.document_BT};
}

std::vector<int64_t> form_of(std::span<models::Batch> batches) {
  std::vector<int64_t> form;
  for (models::Batch& batch : batches) {
    form.push_back(batch.num_samples);
    for (const at::Tensor* tensor : tensors_of(batch)) {
      form.push_back(tensor->defined() ? tensor->dim() : -1);
      if (!tensor->defined()) continue;
      form.push_back(static_cast<int64_t>(tensor->scalar_type()));
      form.insert(form.end(), tensor->sizes().begin(), tensor->sizes().end());
      form.insert(form.end(), tensor->strides().begin(), tensor->strides().end());
    }
  }
  return form;
}

/// Why steps of these batches cannot be recorded; empty: they can.
std::string refusal(std::span<models::Batch> batches) {
  if (batches.size() > kMostBatches)
    return fmt::format("a step has {} micro-batches, at most {} are recorded", batches.size(), kMostBatches);
  std::optional<at::Device> device;
  for (models::Batch& batch : batches) {
    if (!batch.image_keys_B.empty() || !batch.text_keys_B.empty()) return "features of locked towers are kept";
    for (const at::Tensor* tensor : tensors_of(batch)) {
      if (!tensor->defined()) continue;
      if (device && *device != tensor->device()) return "texts of different lengths are packed by the host";
      device = tensor->device();
    }
  }
  return "";
}

using MarkPhase = std::function<void(Phase)>;

/// A step of one form: what it reads and writes, and the recording.
class RecordedForm {
 public:
  /// `run`: the plain step, which tells of phases.
  RecordedForm(nn::WorkRecorder& recorder, std::span<models::Batch> batches,
               const std::vector<optim::Segment>& segments,
               const std::function<StepOutcome(std::span<models::Batch>, const MarkPhase&)>& run) {
    for (models::Batch& batch : batches) {
      models::Batch& copy = batches_.emplace_back(batch);
      for (at::Tensor* tensor : tensors_of(copy))
        if (tensor->defined()) *tensor = tensor->clone();
    }
    recording_ = recorder.record([&](const nn::WorkRecorder::EndPart& end_part) {
      outcome_ = run(batches_, [&](Phase phase) {
        end_part();
        phases_.push_back(phase);
      });
    });
    for (const optim::Segment& segment : segments)
      if (!segment.gradient.defined()) gradients_.emplace_back(segment.parameter, segment.parameter.grad());
  }

  StepOutcome replay(std::span<models::Batch> batches, const MarkPhase& mark) {
    const c10::NoGradGuard no_grad;
    for (size_t i = 0; i < batches.size(); ++i) {
      const auto from = tensors_of(batches[i]), to = tensors_of(batches_[i]);
      for (size_t j = 0; j < to.size(); ++j)
        if (to[j]->defined()) to[j]->copy_(*from[j], /*non_blocking=*/true);
    }
    for (size_t part = 0; part < recording_->num_parts(); ++part) {
      RECORD_USER_SCOPE(to_text(phases_[part]));
      recording_->replay(part);
      if (mark) mark(phases_[part]);
    }
    for (const auto& [parameter, gradient] : gradients_) parameter.mutable_grad() = gradient;
    StepOutcome outcome{.scalars = outcome_.scalars, .num_samples = outcome_.num_samples};
    for (auto& [name, value] : outcome.scalars) value = value.clone();  // the next replay writes there
    return outcome;
  }

 private:
  std::vector<models::Batch> batches_;
  std::vector<Phase> phases_;  // of the parts
  std::unique_ptr<nn::RecordedWork> recording_;
  StepOutcome outcome_;
  std::vector<std::pair<at::Tensor, at::Tensor>> gradients_;  // param.grad() of parameters that no bucket holds
};

class RecordedStep final : public StepRunner {
 public:
  RecordedStep(const StepRunnerParts& parts, const MakeRunner& make)
      : recorder_(*parts.recorder), sync_(parts.sync), mark_run_(parts.on_phase_end), mark_(mark_run_),
        tell_(parts.on_recording) {
    StepRunnerParts plain = parts;
    plain.recorder = nullptr;
    plain.on_recording = {};
    plain.on_phase_end = [this](Phase phase) {
      if (mark_) mark_(phase);
    };
    plain_ = make(plain);
  }

  StepOutcome run(std::span<models::Batch> batches, uint64_t step_key) override {
    Form* form = find_form(batches);
    if (form == nullptr || form->is_refused) return plain_->run(batches, step_key);
    if (form->recorded) return form->recorded->replay(batches, mark_run_);
    ++form->num_steps;
    if (form->num_steps <= kPlainSteps) return plain_->run(batches, step_key);
    if (form->num_steps == kPlainSteps + 1) return rehearse(*form, batches, step_key);
    try {
      form->recorded = record(batches, step_key);
    } catch (const std::exception& error) {
      refuse(*form, error.what());
      return plain_->run(batches, step_key);
    }
    return form->recorded->replay(batches, mark_run_);
  }

 private:
  struct Form {
    int64_t num_steps = 0;
    bool is_refused = false;
    std::unique_ptr<RecordedForm> recorded;
  };

  /// nullptr: there are too many forms.
  Form* find_form(std::span<models::Batch> batches) {
    std::vector<int64_t> key = form_of(batches);
    const auto found = forms_.find(key);
    if (found != forms_.end()) return &found->second;
    return forms_.size() < kMostForms ? &forms_[std::move(key)] : nullptr;
  }

  StepOutcome rehearse(Form& form, std::span<models::Batch> batches, uint64_t step_key) {
    if (const std::string reason = refusal(batches); !reason.empty()) {
      refuse(form, reason);
      return plain_->run(batches, step_key);
    }
    std::optional<StepOutcome> outcome;
    bool has_begun = false;
    try {
      recorder_.rehearse([&] {
        has_begun = true;
        outcome = plain_->run(batches, step_key);
      });
    } catch (const std::exception& error) {
      if (has_begun) throw;  // the step's own
      refuse(form, error.what());
      return plain_->run(batches, step_key);
    }
    return *outcome;
  }

  std::unique_ptr<RecordedForm> record(std::span<models::Batch> batches, uint64_t step_key) {
    auto recorded = std::make_unique<RecordedForm>(recorder_, batches, sync_.partition().segments,
                                                   [&](std::span<models::Batch> copies, const MarkPhase& mark) {
                                                     mark_ = mark;
                                                     return plain_->run(copies, step_key);
                                                   });
    mark_ = mark_run_;
    if (!std::exchange(has_told_, true)) {
      core::log_info("steps are launched as CUDA graphs from now on (--cuda-graphs off: kernel by kernel)");
      if (tell_) tell_("used");
    }
    return recorded;
  }

  void refuse(Form& form, const std::string& reason) {
    form.is_refused = true;
    mark_ = mark_run_;
    if (std::exchange(has_told_refusal_, true)) return;
    const std::string why = core::split(reason, "\n").front();
    core::log_info("steps are launched kernel by kernel, not as CUDA graphs: {}", why);
    if (tell_ && !has_told_) tell_("refused: " + why);  // one form that is replayed counts more
  }

  nn::WorkRecorder& recorder_;
  parallel::GradSync& sync_;
  MarkPhase mark_run_, mark_;  // whom the run wants to be told; whom the plain runner tells
  std::function<void(const std::string&)> tell_;
  std::unique_ptr<StepRunner> plain_;
  bool has_told_ = false, has_told_refusal_ = false;
  std::map<std::vector<int64_t>, Form> forms_;
};

}  // namespace

std::string recording_at_start(std::string_view cuda_graphs, bool is_cuda, int num_ranks) {
  if (!is_cuda) return "";
  if (cuda_graphs == "off") return "off";
  return num_ranks > 1 ? "not with several ranks" : "no step was recorded";
}

std::unique_ptr<StepRunner> make_recorded_step(const StepRunnerParts& parts, const MakeRunner& make) {
  if (parts.recorder == nullptr) return make(parts);
  return std::make_unique<RecordedStep>(parts, make);
}

}  // namespace lockstep::train
