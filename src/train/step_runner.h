#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/task.h"
#include "nn/work_recorder.h"
#include "optim/loss_scaler.h"
#include "parallel/grad_sync.h"
#include "train/phase_clock.h"
#include "train/precision.h"

namespace lockstep::train {

/// What forward and backward of one step leave behind. All scalars stay on the device.
struct StepOutcome {
  /// Parts of the loss, "loss" (their sum as reported), what the task tells beside it.
  std::vector<std::pair<std::string, at::Tensor>> scalars;
  int64_t num_samples = 0;  ///< Of this rank.
};

/// What every runner works with; all outlive it.
struct StepRunnerParts {
  models::Task& task;
  parallel::GradSync& sync;
  const Precision& precision;
  const optim::LossScaler* scaler = nullptr;     ///< Gradients come out multiplied by its scale.
  int data_rank = 0;                             ///< Ranks draw different random numbers.
  std::function<void(Phase)> on_phase_end = {};  ///< When forward, backward and waiting end; empty: nobody asks.
  nn::WorkRecorder* recorder = nullptr;          ///< Of steps that ranks need not agree on; nullptr: none.
  /// Told what became of recording: "used", "refused: why". Empty: nobody asks.
  std::function<void(const std::string&)> on_recording = {};

  void mark(Phase phase) const {
    if (on_phase_end) on_phase_end(phase);
  }
};

/// Forward and backward of all micro-batches of one optimiser step; afterwards gradients are averaged over the data
/// axis.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  /// `step_key` keys all random operations of the step, on any rank and micro-batch. Sets the batches' contexts.
  virtual StepOutcome run(std::span<models::Batch> micro_batches, uint64_t step_key) = 0;
};

/// Each micro-batch is a batch of its own: the loss is the mean over the micro-batches.
std::unique_ptr<StepRunner> make_plain_step(const StepRunnerParts& parts);

}  // namespace lockstep::train
