#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>

#include "core/error.h"
#include "core/rng.h"
#include "train/step_runner.h"

namespace lockstep::train {
namespace {

class PlainStep final : public StepRunner {
 public:
  explicit PlainStep(const StepRunnerParts& parts) : parts_(parts) {}

  StepOutcome run(std::span<models::Batch> micro_batches, uint64_t step_key) override {
    LOCKSTEP_CHECK(!micro_batches.empty(), "a step without micro-batches");
    StepOutcome outcome;
    parts_.sync.begin_step();
    parts_.mark(Phase::kOther);
    for (size_t micro = 0; micro < micro_batches.size(); ++micro) {
      auto& batch = micro_batches[micro];
      batch.context = {.random_key = core::stream_key({step_key, static_cast<uint64_t>(parts_.data_rank), micro})};
      parts_.sync.begin_micro(micro + 1 == micro_batches.size());
      run_micro(batch, micro_batches.size(), outcome);
    }
    parts_.sync.finish();
    parts_.mark(Phase::kExposedComm);
    return outcome;
  }

 private:
  void run_micro(const models::Batch& batch, size_t num_micro_batches, StepOutcome& outcome) {
    models::LossReport report;
    {
      RECORD_USER_SCOPE("forward");
      const auto autocast = parts_.precision.autocast();
      report = parts_.task.loss(parts_.task.forward(batch));
    }
    auto loss = report.loss / static_cast<double>(num_micro_batches);
    if (parts_.scaler != nullptr) loss = parts_.scaler->scaled(loss);
    parts_.mark(Phase::kForward);
    {
      RECORD_USER_SCOPE("backward");
      loss.backward();
    }
    parts_.mark(Phase::kBackward);
    add_to_outcome(report, num_micro_batches, outcome);
    outcome.num_samples += batch.num_samples;
    parts_.mark(Phase::kOther);
  }

  /// Means over the micro-batches: of each part, their sum as "loss", and of what the task tells beside them.
  void add_to_outcome(const models::LossReport& report, size_t num_micro_batches, StepOutcome& outcome) {
    const c10::NoGradGuard no_grad;
    const bool is_first = outcome.scalars.empty();
    at::Tensor total;
    for (size_t i = 0; i < report.parts.size(); ++i) {
      const auto share = report.parts[i].second / static_cast<double>(num_micro_batches);
      total = total.defined() ? total + share : share;
      if (is_first)
        outcome.scalars.emplace_back(report.parts[i].first, share);
      else
        outcome.scalars[i].second = outcome.scalars[i].second + share;
    }
    if (is_first) {
      num_reports_ = 1;
      outcome.scalars.emplace_back(
          "loss", total.defined() ? total : report.loss.detach() / static_cast<double>(num_micro_batches));
      for (const auto& [name, value] : report.scalars) outcome.scalars.emplace_back(name, value.clone());
    } else {
      // A running mean: a value that is the same in every micro-batch stays what it is.
      ++num_reports_;
      for (size_t i = 0; i < report.scalars.size(); ++i) {
        auto& mean = outcome.scalars[report.parts.size() + 1 + i].second;
        mean = mean + (report.scalars[i].second - mean) / num_reports_;
      }
      auto& loss = outcome.scalars[report.parts.size()].second;
      loss = loss + (total.defined() ? total : report.loss.detach() / static_cast<double>(num_micro_batches));
    }
  }

  StepRunnerParts parts_;
  int64_t num_reports_ = 0;  // of the step under way
};

}  // namespace

std::unique_ptr<StepRunner> make_plain_step(const StepRunnerParts& parts) { return std::make_unique<PlainStep>(parts); }

}  // namespace lockstep::train
