#pragma once
#include <ATen/core/TensorBody.h>

#include <algorithm>
#include <memory>
#include <span>

#include "comm/comm.h"
#include "models/staged_task.h"
#include "plan/pipe_schedule.h"
#include "train/step_runner.h"

namespace lockstep::train {

/// What a stage of a pipeline adds to StepRunnerParts. References outlive the runner.
struct PipelineParts {
  models::StagedTask& stage;  ///< The task, whose chunks are those of this rank's stage.
  comm::Comm& stages;         ///< The pipeline; the rank in it is the number of the stage. Carries activations.
  comm::Comm& back;           ///< The same ranks; carries gradients of activations.
  plan::PipeSchedule schedule;
  at::TensorOptions boundary;        ///< Type and device of what flows between two parts.
  comm::Comm& data_axis;             ///< Ranks that see other samples.
  comm::Comm& world;                 ///< Everybody who is to know the loss.
  bool reports_loss = true;          ///< Of the ranks that compute one loss together one reports it.
  bool is_mean_over_tokens = false;  ///< See make_pipeline_step.
};

/// Forward and backward in the order of a schedule: activations go to the next part, their gradients come back.
///
/// The loss is the mean over the micro-batches and, once gradients are averaged, over the data axis; with
/// is_mean_over_tokens it is that over all tokens of the step that count, of all micro-batches and data ranks together,
/// whatever their masks. The outcome holds "loss", that mean, on every rank. A micro-batch's random numbers depend on
/// its place among the micro-batches of all data ranks, so that they do not depend on the layout; with one part on one
/// stage the step is PlainStep.
std::unique_ptr<StepRunner> make_pipeline_step(const StepRunnerParts& parts, PipelineParts pipeline);

/// What adds up to a mean loss.
struct LossSum {
  double sum = 0, weight = 0;
  LossSum& operator+=(const LossSum& other) {
    sum += other.sum;
    weight += other.weight;
    return *this;
  }
  double mean() const { return sum / std::max(weight, 1.0); }
};

/// The loss of forward passes alone, one micro-batch after the other, over all data ranks and for every rank: of
/// micro-batches, or, with is_mean_over_tokens, of the tokens that count. Waits for the device. Collective over
/// `world`.
LossSum pipeline_loss(const PipelineParts& pipeline, const Precision& precision,
                      std::span<models::Batch> micro_batches);

}  // namespace lockstep::train
