#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>
#include <span>

#include "comm/comm.h"
#include "models/staged_task.h"
#include "plan/pipe_schedule.h"
#include "train/step_runner.h"

namespace lockstep::train {

/// What a stage of a pipeline adds to StepRunnerParts. References outlive the runner.
struct PipelineParts {
  models::StagedTask& stage;      ///< The task, whose chunks are those of this rank's stage.
  comm::Comm& stages;             ///< The pipeline; the rank in it is the number of the stage.
  plan::PipeSchedule schedule;
  at::TensorOptions boundary;     ///< Type and device of what flows between two parts.
  int num_data_ranks = 1;
  comm::Comm& world;              ///< Everybody who is to know the loss.
  bool reports_loss = true;       ///< Of the ranks that compute one loss together one reports it.
};

/// Forward and backward in the order of a schedule: activations go to the next part, their gradients come back.
///
/// The loss is the mean over the micro-batches and, once gradients are averaged, over the data axis. The outcome holds "loss", that mean over
/// everybody's, on every rank. A micro-batch's random numbers depend on its place among the micro-batches of all data ranks, so that they do not
/// depend on the layout; with one part on one stage the step is PlainStep.
std::unique_ptr<StepRunner> make_pipeline_step(const StepRunnerParts& parts, PipelineParts pipeline);

/// The loss of forward passes alone, one micro-batch after the other: mean over them and the data axis, on every rank. Collective over `world`.
at::Tensor pipeline_loss(const PipelineParts& pipeline, const Precision& precision, std::span<models::Batch> micro_batches);

}  // namespace lockstep::train
