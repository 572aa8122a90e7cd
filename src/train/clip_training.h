#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>
#include <optional>

#include "comm/comm.h"
#include "models/contrastive_task.h"
#include "optim/adamw.h"
#include "optim/grad_norm.h"
#include "optim/loss_scaler.h"
#include "parallel/grad_sync.h"
#include "spec/clip_shape.h"
#include "spec/train_options.h"
#include "train/phase_clock.h"
#include "train/precision.h"
#include "train/step_runner.h"

namespace lockstep::train {

/// Shape of --model with the changes that --force-* make.
spec::ClipShape clip_shape_of(const spec::TrainOptions& options);

/// All that one optimiser step of a CLIP run works with, by the run's options. Members depend on those before them.
struct ClipTraining {
  spec::ClipShape shape;
  std::unique_ptr<Precision> precision;
  std::unique_ptr<models::ContrastiveTask> task;
  std::unique_ptr<parallel::GradSync> sync;
  std::unique_ptr<optim::AdamW> optimizer;
  std::unique_ptr<optim::LossScaler> scaler;  ///< Only where the precision needs one.
  std::unique_ptr<StepRunner> runner;

  /// AdamW with the gradients that the runner left, the scaler, what follows an update. Nothing waits for the device.
  optim::GradSummary update(double lr, double grad_clip_norm);
};

/// Builds it on every rank of `data_axis`, which must outlive it, as must `phases`. Collective. UsageError for --grad-sync none on several
/// ranks.
ClipTraining build_clip_training(const spec::TrainOptions& options, comm::Comm& data_axis, at::Device device, int64_t num_micro,
                                 PhaseClock* phases = nullptr);

}  // namespace lockstep::train
